// Toasts of actions that can be undone have a button for it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { go, idOf, LIVE_MS, stage } from "./people.mjs";

const scene = stage({ people: { ann: "Ann Arbor", bo: "Bo Diddley" } });

const edges = async () => (await scene.server.callAs("ann", "GET", "/users/bo")).edges;
/** Waits until a relation of Ann to Bo is so. */
const relation = (name, wanted) => scene.ann.until(edges, (now) => now[name] === wanted, `${name} ${wanted}`, LIVE_MS);
const choose = async (place, ...items) => {
  await scene.ann.click(place);
  for (const item of items) await scene.ann.click(item);
};
const said = (text) => scene.ann.sees("toast", text, LIVE_MS);

test("what was done to a person on Home is taken back from where it is said", async () => {
  const { server, ann } = scene;
  await server.callAs("ann", "PUT", "/users/bo/follow");
  await server.postOf("bo", "Here I am");
  await ann.sees("post-body", "Here I am", LIVE_MS);
  const more = `[data-id="${await idOf(ann, "Here I am")}"] [data-testid=more]`;
  for (const [action, name, before, text] of [
    ["hide", "hiding", false, "Bo Diddley no longer sees your posts."],
    ["mute", "muting", false, "Bo Diddley is muted."],
    ["unfollow", "following", true, "You no longer follow Bo Diddley."],
  ]) {
    await choose(more, action);
    await said(text);
    await relation(name, !before);
    await ann.click("undo");
    await relation(name, before);
    await said("Done.");
    await ann.sees("post-body", "Here I am", LIVE_MS);
  }
  await choose(more, "block", "block");
  await said("Bo Diddley is blocked.");
  await relation("blocking", true);
  // The key of the page does it, too: the toast is far from the focus.
  await ann.run(() => document.activeElement.blur());
  await ann.press("u");
  await relation("blocking", false);
  await relation("following", true);
});

test("so it is on a profile, and with its button", async () => {
  const { ann } = scene;
  await go(ann, "/user/bo");
  await choose("[data-testid=profile] [data-testid=relations]", "mute");
  await ann.sees("profile", "You muted this person");
  await ann.click("undo");
  await relation("muting", false);
  await ann.until(() => ann.texts("profile"), ([text]) => !text.includes("You muted"), "no longer muted");
  await ann.click("[data-testid=profile] [data-testid=follow]");
  await said("You no longer follow Bo Diddley.");
  await relation("following", false);
  await ann.click("undo");
  await relation("following", true);
  await ann.sees("[data-testid=profile] [data-testid=follow]", "Following");
});

test("a favourite that was removed comes back, and a muted conversation is heard again", async () => {
  const { server, ann } = scene;
  const { id } = await server.postOf("bo", "Keep me");
  await server.callAs("ann", "PUT", `/favourites/post/${id}`);
  await go(ann, "/favourites");
  await ann.click(`[data-id="${id}"] [data-testid=favourite]`);
  await said("Removed from your favourites.");
  await ann.shot("toast-undo");
  await ann.until(() => ann.texts("post-body"), (now) => now.length === 0, "gone");
  await ann.click("undo");
  await ann.sees("post-body", "Keep me", LIVE_MS);
  const kept = async () => (await server.callAs("ann", "GET", "/favourites/post")).items.length;
  await ann.until(kept, (now) => now === 1, "stored");
  await choose(`[data-id="${id}"] [data-testid=more]`, "mute-conversation");
  await said("This conversation is muted.");
  await ann.click("undo");
  await said("Done.");
  await ann.click(`[data-id="${id}"] [data-testid=more]`);
  await ann.sees("mute-conversation", "Mute this conversation");
  await ann.press("\uE00C");
  assert.equal(await ann.run(() => document.querySelectorAll("#toast button").length), 0);
});
