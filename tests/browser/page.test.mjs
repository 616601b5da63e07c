// The page in a real browser, with two users in two windows.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";

import { Server } from "../support/server.mjs";
import { Driver } from "./driver.mjs";
import { follow, go, LIVE_MS, live, posts, quiet, remove, shows, signIn, signUp, state, write } from "./people.mjs";

let server;
let driver;
let ann;
let bo;

before(async () => {
  server = await Server.start();
  driver = await Driver.start();
  [ann, bo] = [await driver.browser(), await driver.browser()];
});

after(async () => {
  for (const browser of [ann, bo]) await browser?.close();
  await driver?.stop();
  await server?.stop();
});

/** Console messages that a test provokes on purpose. */
let expected = [];

afterEach(async () => {
  for (const browser of [ann, bo]) await quiet(browser, expected);
  expected = [];
});

test("an empty form names its required fields", async () => {
  await ann.open(server.origin);
  await ann.click("gate-submit");
  await ann.sees("user-error", "Enter an id");
  await ann.shot("sign-in");
});

test("two people sign up", async () => {
  await signUp(ann, server.origin, "ann", "Ann Arbor");
  await signUp(bo, server.origin, "bo", "Bo Diddley");
  await ann.sees("my-name", "Ann Arbor");
  await ann.sees("timeline-note", "Nothing here yet");
});

test("a post is on its author's page at once, and once", async () => {
  await write(bo, "Bo’s first");
  await shows(bo, ["Bo’s first"], LIVE_MS);
});

test("following adds the author's earlier posts", async () => {
  await follow(ann, "bo");
  await ann.sees("profile-name", "Bo Diddley");
  await ann.click("nav-home");
  await shows(ann, ["Bo’s first"], LIVE_MS);
});

test("a post appears live on a follower's page", async () => {
  await write(bo, "Bo’s second");
  await shows(ann, ["Bo’s second", "Bo’s first"], LIVE_MS);
  await write(ann, "Ann’s first");
  await shows(ann, ["Ann’s first", "Bo’s second", "Bo’s first"], LIVE_MS);
  await shows(bo, ["Bo’s second", "Bo’s first"]);
});

test("user input is shown as plain text", async () => {
  const nasty = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
  await write(bo, nasty);
  await shows(ann, [nasty, "Ann’s first", "Bo’s second", "Bo’s first"], LIVE_MS);
  assert.equal(await ann.run(() => document.querySelectorAll("[data-testid=posts] img, main script").length), 0);
  assert.equal(await ann.run(() => document.title), "Home · Feedline");
  await remove(bo, "onerror");
  await shows(ann, ["Ann’s first", "Bo’s second", "Bo’s first"], LIVE_MS);
});

test("a dropped connection reconnects automatically", async () => {
  await ann.click("curtain");
  await ann.click("drop");
  await ann.sees("recovered", "Nothing missed");
  await live(ann);
  await ann.sees("frames", "recovered");
});

test("events missed while offline arrive after reconnecting: once, in order", async () => {
  await ann.click("toggle-online");
  await state(ann, "offline");
  await write(bo, "missed one");
  await write(bo, "missed two");
  await shows(bo, ["missed two", "missed one", "Bo’s second", "Bo’s first"], LIVE_MS);
  await remove(bo, "Bo’s second");
  await shows(bo, ["missed two", "missed one", "Bo’s first"], LIVE_MS);
  await ann.shot("offline");
  assert.deepEqual(await posts(ann), ["Ann’s first", "Bo’s second", "Bo’s first"]);
  await ann.click("toggle-online");
  await shows(ann, ["missed two", "missed one", "Ann’s first", "Bo’s first"]);
  await ann.sees("recovered", "Caught up on 2 posts, nothing missed");
  await ann.shot("recovered");
  await ann.click("drawer-close");
});

test("a deleted post disappears live, and stays away after a reload", async () => {
  await remove(bo, "missed one");
  await shows(ann, ["missed two", "Ann’s first", "Bo’s first"], LIVE_MS);
  await ann.reload();
  await live(ann);
  await shows(ann, ["missed two", "Ann’s first", "Bo’s first"]);
});

test("a server that is restarted is reconnected to, with all data", async () => {
  expected = ["WebSocket connection to", "ERR_CONNECTION_REFUSED"];
  await server.shutdown();
  await state(ann, "lost");
  await server.restart();
  await server.postOf("bo", "after the restart");
  const wanted = ["after the restart", "missed two", "Ann’s first", "Bo’s first"];
  await shows(ann, wanted, 30_000);
  await live(ann);
  await live(bo);
  await write(bo, "and live again");
  await shows(ann, ["and live again", ...wanted], LIVE_MS);
});

test("older posts are loaded page by page, each once", async () => {
  for (let n = 1; n <= 30; n += 1) await server.postOf("bo", `many ${n}`);
  await ann.reload();
  await live(ann);
  const first = await ann.until(
    () => posts(ann),
    (now) => now.length === 20,
    "a first page",
  );
  assert.equal(first[0], "many 30");
  await ann.run(() => scrollTo(0, document.body.scrollHeight));
  const all = await ann.until(
    () => posts(ann),
    (now) => now.length === 35,
    "the rest",
  );
  assert.equal(all.at(-1), "Bo’s first");
  assert.equal(new Set(all).size, all.length);
  await ann.sees(".feed-end", "seen it all");
});

test("the page fits on a phone and in the dark theme", async () => {
  await ann.run(() => scrollTo(0, 0));
  await ann.shot("home");
  await ann.emulate({ dark: true, width: 1180, height: 900 });
  await ann.shot("home-dark");
  await ann.emulate({ width: 390, height: 844 });
  const overflow = await ann.run(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.equal(overflow, 0, "nothing sticks out sideways");
  await ann.shot("phone");
  await ann.emulate({ width: 1180, height: 900 });
});

test("errors are shown beside their form", async () => {
  expected = ["the server responded with a status of"];
  await go(ann, "/user/nobody-of-that-name");
  await ann.sees("empty", "There is nothing here");
  await ann.click("nav-home");
  await ann.click("post-submit");
  await ann.until(
    () => ann.texts("post-error"),
    ([text]) => text !== "",
    "an error beside the post",
  );
  await ann.click("me");
  await ann.click("sign-out");
  assert.deepEqual(await posts(ann), [], "nothing is kept for the next user");
  await signIn(ann, "ann", "not my password");
  await ann.until(
    () => ann.texts("gate-error"),
    ([text]) => text !== "",
    "an error below the form",
  );
  await ann.click("gate-switch");
  await ann.click("gate-submit");
  await ann.sees("user-error", "taken");
});

test("unfollowing removes the posts; signing in again shows the rest", async () => {
  await ann.click("gate-switch");
  await signIn(ann, "ann");
  await live(ann);
  await ann.sees("my-name", "Ann Arbor");
  await ann.sees("post-body", "many 30");
  await follow(ann, "bo");
  await ann.until(
    () => ann.texts("follow"),
    ([text]) => text === "Follow",
    "the follow ended",
  );
  await ann.click("nav-home");
  await shows(ann, ["Ann’s first"]);
});
