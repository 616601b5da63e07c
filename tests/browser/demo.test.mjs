// A new instance with the data of `feedline seed-demo`. Takes the screenshots of the README: `target/screenshots`.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Server } from "../support/server.mjs";
import { Driver } from "./driver.mjs";
import { go, idOf, live, quiet, signIn, PASSWORD } from "./people.mjs";

const DESKTOP = { width: 1240, height: 860 };
const PHONE = { width: 390, height: 844 };
const MOST_SECONDS = 10;

let server, driver, mara;

before(async () => {
  server = await Server.start();
  await server.shutdown();
  const started = Date.now();
  const said = await server.command("seed-demo", "--password", PASSWORD);
  assert.match(said, /28 people, \d+ follows, 43 posts, \d+ comments, \d+ likes/);
  assert.ok(Date.now() - started < MOST_SECONDS * 1_000, "seeding takes less than ten seconds");
  await assert.rejects(server.command("seed-demo"), /the ledger is not empty/);
  await server.restart();
  // A server of the embedded broker holds its queue of likes; with Redis, several processes share one.
  const running = process.env.FEEDLINE_BROKER === "redis" ? /the ledger is not empty/ : /stop the server first/;
  await assert.rejects(server.command("seed-demo"), running);
  driver = await Driver.start();
  mara = await driver.browser();
  await mara.open(`${server.origin}/sign-in`);
  await signIn(mara, "mara");
  await live(mara);
});

after(async () => {
  await mara?.close();
  await driver?.stop();
  await server?.stop();
});

/** Waits until every picture in the window is loaded. */
const pictures = () => {
  const loaded = () =>
    mara.run(() => {
      const inWindow = [...document.images].filter((image) => image.getBoundingClientRect().top < innerHeight);
      return inWindow.map((image) => image.complete && image.naturalWidth > 0);
    });
  return mara.until(loaded, (all) => all.every(Boolean), "pictures are loaded");
};

async function picture(name, size, dark = false) {
  await mara.emulate({ ...size, dark });
  await pictures();
  await mara.shot(`demo-${name}`);
}

test("the timeline shows posts with their pictures, the newest first", async () => {
  await mara.sees("post-body", "First light over the ridge");
  const shown = await mara.texts("post-body");
  assert.match(shown[0], /First light over the ridge/);
  await mara.sees("post-body", "Service notes from tonight");
  assert.ok((await pictures()).length > 0);
  const unread = () => mara.texts("[data-testid=unread]:not([hidden])");
  await mara.until(unread, (dots) => dots.length === 0, "the first posts are read");
  await picture("home", DESKTOP);
  await picture("dark", DESKTOP, true);
  await picture("phone", PHONE);
});

test("a thread shows its comments", async () => {
  const id = await idOf(mara, "First light over the ridge");
  await go(mara, `/post/${id}`);
  await mara.sees("comment-text-shown", "That third layer looks like it was painted.");
  await picture("thread", DESKTOP);
});

test("notifications are grouped", async () => {
  await go(mara, "/notifications");
  await mara.sees("notification", "and 3 others commented on your post");
  await picture("notifications", DESKTOP);
  await quiet(mara);
});
