// What everybody wrote in public: on an empty home, and in Explore. And a post that the server refuses.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createAccount, idOf, posts, stage, write, writeRefused } from "./people.mjs";

const scene = stage({
  people: { ann: "Ann Arbor" },
  before: async ({ server }) => {
    await createAccount(server, "cy", "Cy Twombly");
    await server.postOf("cy", "Cy’s open letter");
    await server.callAs("cy", "POST", "/posts", { text: "Cy’s secret", visibility: "followers" });
  },
});

/** The texts of the posts in the section that shows everybody's. */
const everybody = (browser) => browser.texts("[data-testid=everybody] [data-testid=post-body]");

test("an empty home shows what everybody wrote in public, until it has posts of its own", async () => {
  const { ann } = scene;
  await ann.click("nav-home");
  await ann.sees("timeline-note", "Nothing here yet");
  await ann.until(
    () => everybody(ann),
    (now) => now.includes("Cy’s open letter"),
    "a public post",
  );
  assert.ok(!(await everybody(ann)).includes("Cy’s secret"));
  await scene.server.callAs("cy", "POST", "/posts", { text: "Cy’s second letter" });
  await ann.until(
    () => everybody(ann),
    (now) => now[0] === "Cy’s second letter",
    "a new public post",
  );
  await write(ann, "Ann’s own");
  await ann.until(
    () => ann.run(() => document.querySelector("[data-testid=everybody]") === null),
    Boolean,
    "the posts of others left",
  );
  assert.deepEqual(await posts(ann), ["Ann’s own"]);
});

test("explore shows recent public posts, and they can be liked there", async () => {
  const { ann } = scene;
  await ann.click("nav-explore");
  await ann.until(
    () => everybody(ann),
    (now) => now.join() === "Ann’s own,Cy’s second letter,Cy’s open letter",
    "the public posts, newest first",
  );
  const id = await idOf(ann, "Cy’s open letter");
  const heart = `[data-id="${id}"] [data-testid=like]`;
  await ann.click(heart);
  await ann.until(
    () => ann.run((name) => document.querySelector(name).dataset.state, heart),
    (now) => now === "settled",
    "settled",
  );
});

test("a post that the server refuses can be put back into the form", async () => {
  const { ann } = scene;
  await ann.click("nav-home");
  const text = "with a picture that is none";
  await writeRefused(ann, text);
  await ann.sees("[data-testid=post][data-pending=failed]", "was not posted");
  await ann.sees("[data-testid=post][data-pending=failed] .when", "not posted");
  await ann.shot("post-refused");
  await ann.click("put-back");
  await ann.until(
    () => ann.run(() => document.querySelector("[data-testid=post-text]").value),
    (now) => now === text,
    "the text is back",
  );
});
