// Server crashes and network losses while the user reads and writes: no post is lost, duplicated or moved.

import assert from "node:assert/strict";
import { test } from "node:test";

import { live, LIVE_MS, posts, setOffline, stage, state, write } from "./people.mjs";

const EARLY = 60;
const SCROLLED = 1_500;
const RECONNECT_MS = 30_000;
const UNREACHABLE = [
  "WebSocket connection to",
  "ERR_CONNECTION_REFUSED",
  "ERR_CONNECTION_RESET",
  "ERR_INTERNET_DISCONNECTED",
];

/** All posts, oldest first. */
const written = Array.from({ length: EARLY }, (_, n) => `early ${n + 1}`);

const scene = stage({
  people: { ann: "Ann Arbor", bo: "Bo Diddley" },
  before: async ({ server, ann }) => {
    await server.callAs("ann", "PUT", "/users/bo/follow");
    for (const text of written) await server.postOf("bo", text);
    await ann.reload();
    await live(ann);
    await ann.sees("post-body", `early ${EARLY}`);
  },
});

async function postOf(user, text) {
  await scene.server.postOf(user, text);
  written.push(text);
}

/** The id and the position of the first post below the top of the window. */
const place = (browser) =>
  browser.run(() => {
    const found = [...document.querySelectorAll("[data-testid=post]")].find(
      (post) => post.getBoundingClientRect().top > 100,
    );
    return [found.dataset.id, Math.round(found.getBoundingClientRect().top)];
  });

/** Checks that a place has not moved, apart from rounding. */
function stays([id, top], [wantedId, wantedTop]) {
  assert.equal(id, wantedId, "the same post is at the top");
  assert.ok(Math.abs(top - wantedTop) <= 1, `it moved by ${top - wantedTop} px`);
}

async function scrollTo(browser, y) {
  await browser.run((top) => window.scrollTo(0, top), y);
  await browser.until(
    () => browser.run(() => scrollY),
    (now) => now === y,
    `scrolled to ${y}`,
  );
}

/** Scrolls from the top to the end, and checks that every post is shown, once, in order. */
async function showsAll(browser) {
  await scrollTo(browser, 0);
  const wanted = JSON.stringify([...written].reverse());
  const read = async () => {
    await browser.run(() => window.scrollTo(0, document.body.scrollHeight));
    return posts(browser);
  };
  await browser.until(read, (now) => JSON.stringify(now) === wanted, "every post once");
  await scrollTo(browser, 0);
}

/** Disconnects the browser from the network, or connects it again. */
test("the server is killed and restarted while the user reads further down", async () => {
  const { server, ann, bo } = scene;
  await scrollTo(ann, SCROLLED);
  const before = await place(ann);
  scene.expected = UNREACHABLE;
  await server.kill();
  await state(ann, "lost");
  stays(await place(ann), before);
  await ann.shot("killed-mid-scroll");
  await server.restart();
  for (let n = 1; n <= 5; n += 1) await postOf("bo", `after the crash ${n}`);
  await ann.until(
    () => ann.run(() => document.querySelector("[data-testid=connection]")?.dataset.state),
    (now) => now === "live",
    "connected again",
    RECONNECT_MS,
  );
  await ann.sees("new-posts", "5 new posts", RECONNECT_MS);
  stays(await place(ann), before);
  await ann.click("new-posts");
  await ann.sees("post-body", "after the crash 5");
  await showsAll(ann);
  await live(bo);
});

test("the network is lost and back: what was missed arrives, what was written is sent, each once", async () => {
  const { ann, bo } = scene;
  scene.expected = UNREACHABLE;
  await setOffline(ann, true);
  await state(ann, "lost");
  await ann.type("post-text", "written offline");
  await ann.click("post-submit");
  await ann.sees("[data-testid=post][data-pending=pending]", "written offline");
  for (let n = 1; n <= 4; n += 1) await postOf("bo", `missed ${n}`);
  await ann.shot("network-lost");
  await setOffline(ann, false);
  await live(ann);
  await ann.sees("recovered", "Caught up on 4 posts, nothing missed");
  await ann.until(
    () => ann.texts("[data-testid=post][data-pending=pending]"),
    (pending) => pending.length === 0,
    "the post is stored",
  );
  written.push("written offline");
  await showsAll(ann);
  await write(bo, "live again");
  written.push("live again");
  await ann.sees("post-body", "live again", LIVE_MS);
  await showsAll(ann);
});
