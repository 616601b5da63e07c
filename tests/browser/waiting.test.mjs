// A view that is opened while the line is down says that it waits for it, has no empty box, and loads by itself.

import { test } from "node:test";

import { go, live, stage, state } from "./people.mjs";

const VIEWS = [
  ["/explore", "everybody", "On the plaza"],
  ["/topics", "topic", "#plaza"],
  ["/topic/plaza", "post-body", "On the plaza"],
  ["/favourites", "empty", "No favourites yet"],
  ["/search?q=bo", "found", "Bo Diddley"],
  ["/settings/push", "push-state", "This server"],
  ["/settings", "push-settings", "This server"],
];
const scene = stage({ people: { ann: "Ann Arbor", bo: "Bo Diddley" } });

/** The number of boxes with nothing in them, or skeletons alone. */
const blank = () =>
  [...document.querySelectorAll("#view .card")].filter(
    (card) =>
      card.checkVisibility() &&
      card.offsetHeight > 30 &&
      card.textContent.trim() === "" &&
      !card.querySelector("input"),
  ).length;

test("views wait for the line within three seconds, and all of them load when it is back", async () => {
  const { server, ann } = scene;
  const { id } = await server.postOf("bo", "On the plaza #plaza");
  const all = [...VIEWS, [`/post/${id}`, "post-body", "On the plaza"], ["/user/bo", "profile-name", "Bo Diddley"]];
  // The second script is there.
  await go(ann, "/topics");
  await ann.sees("topic", "#plaza");
  scene.expected = ["WebSocket connection to", "ERR_CONNECTION_REFUSED"];
  await server.kill();
  await state(ann, "lost");
  for (const [path] of all) {
    await go(ann, path);
    await ann.sees("#view", "waiting for the line", 3_500);
    // The boxes of a view begin to wait shortly after each other.
    await ann.until(() => ann.run(blank), (boxes) => boxes === 0, `${path} has empty boxes`, 500);
  }
  // Once the last view has given up its requests, all of them have: what loads later was asked for again.
  await ann.sees("#view button", "Try again", 15_000);
  await ann.shot("waiting");
  await server.restart();
  await live(ann);
  for (const [path, name, text] of [...all].reverse()) {
    await ann.until(() => ann.run(() => location.pathname + location.search), (now) => now === path, path);
    await ann.sees(name, text);
    const texts = () => ann.texts("#view");
    await ann.until(texts, ([now]) => !now.includes("waiting for the line"), `${path} waits no more`);
    await ann.run(() => history.back());
  }
});
