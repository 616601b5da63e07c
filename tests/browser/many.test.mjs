// Many new posts: they are held back while the user reads, and the document size stays bounded.

import assert from "node:assert/strict";
import { test } from "node:test";

import { LIVE_MS, live, posts, stage } from "./people.mjs";

const ARRIVALS = Number(process.env.FEEDLINE_ARRIVALS ?? 500);
const AT_ONCE = 20;
const IN_DOCUMENT = 200;
const HEAP_BYTES = 2 * 1024 * 1024;

const scene = stage({
  people: { ann: "Ann Arbor", bo: "Bo Diddley" },
  before: async ({ server, ann }) => {
    await server.callAs("ann", "PUT", "/users/bo/follow");
    for (let n = 1; n <= 60; n += 1) await server.postOf("bo", `early ${n}`);
    await ann.reload();
    await live(ann);
  },
});

const shown = (browser) => browser.run(() => document.querySelectorAll("[data-testid=post]").length);

async function arrive(from, to) {
  const { server } = scene;
  for (let n = from; n <= to; n += AT_ONCE) {
    const batch = Array.from({ length: Math.min(AT_ONCE, to - n + 1) }, (_, more) => n + more);
    await Promise.all(batch.map((number) => server.postOf("bo", `arrival ${number}`)));
  }
}

/** Heap size in bytes after a forced collection. */
async function heap(browser) {
  const command = (cmd, params = {}) => browser.call("POST", "/goog/cdp/execute", { cmd, params });
  await command("HeapProfiler.collectGarbage");
  const { usedSize } = await command("Runtime.getHeapUsage");
  return usedSize;
}

test("new posts wait behind a bar while the user reads further down, and are inserted on request", async () => {
  const { ann } = scene;
  await ann.until(
    () => shown(ann),
    (now) => now >= 20,
    "a page",
  );
  await ann.run(() => scrollTo(0, 900));
  const place = () =>
    ann.run(() => {
      const post = [...document.querySelectorAll("[data-testid=post]")].find(
        (one) => one.getBoundingClientRect().top > 100,
      );
      return [post.dataset.id, Math.round(post.getBoundingClientRect().top)];
    });
  await ann.until(
    () => ann.run(() => scrollY),
    (now) => now === 900,
    "scrolled",
  );
  const before = await place();
  await arrive(1, 3);
  await ann.sees("new-posts", "3 new posts", LIVE_MS);
  assert.deepEqual(await place(), before, "nothing moved");
  await ann.shot("new-posts");
  await ann.click("new-posts");
  await ann.until(
    () => posts(ann),
    (now) => now.slice(0, 3).every((text) => text.startsWith("arrival")),
    "the new posts",
  );
});

/** Waits until the timeline has reached an offset. */
const at = (browser, offset) => {
  const ask = () => browser.run(() => document.querySelector("[data-testid=connection]").dataset.position);
  return browser.until(ask, (now) => now === String(offset), `at offset ${offset}`, 30_000);
};

test(`after ${ARRIVALS} arrivals the document and the heap are bounded`, async () => {
  const { ann } = scene;
  await ann.run(() => scrollTo(0, 0));
  const half = Math.min(500, Math.ceil(ARRIVALS / 2));
  await arrive(4, half);
  await at(ann, 60 + half);
  const early = await heap(ann);
  await arrive(half + 1, ARRIVALS);
  await at(ann, 60 + ARRIVALS);
  assert.ok((await shown(ann)) <= IN_DOCUMENT, `${await shown(ann)} posts in the document`);
  const grown = (await heap(ann)) - early;
  assert.ok(grown <= HEAP_BYTES, `the heap grew by ${grown} bytes`);
});

test("scrolling down keeps the document bounded, and every post is shown once", async () => {
  const { ann } = scene;
  const met = new Set();
  for (let round = 0; round < ARRIVALS / 5; round += 1) {
    for (const text of await posts(ann)) met.add(text);
    assert.ok((await shown(ann)) <= IN_DOCUMENT);
    if (met.has("early 1")) break;
    await ann.run(() => scrollBy(0, 4000));
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.equal(met.size, 60 + ARRIVALS);
  await ann.run(() => scrollTo(0, 0));
  await ann.until(
    () => posts(ann),
    ([first]) => first.startsWith("arrival"),
    "the top again",
  );
  assert.ok((await shown(ann)) <= IN_DOCUMENT);
});
