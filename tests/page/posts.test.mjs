// The posts of a timeline: each post appears once, in order, for any order of pages and pushes.

import assert from "node:assert/strict";
import { test } from "node:test";

import { PostList } from "../../web/feedline/posts.js";

const post = (id, more = {}) => ({ id, author: "bo", text: `post ${id}`, created_at: id, ...more });
const arrival = (id) => ({ type: "post", post: post(id) });
const gone = (id, reason = "deleted") => ({ type: "gone", id, reason });
const page = (ids, offset, next) => ({
  items: ids.map((id) => post(id)),
  position: { offset, epoch: "e" },
  ...(next && { next }),
});
const ids = (timeline) => timeline.shown.map(({ id }) => id);

function read(first) {
  const timeline = new PostList();
  timeline.take(first);
  return timeline;
}

test("arrivals stand where their id belongs, once", () => {
  const timeline = read(page([50, 30, 10], 3));
  for (const [i, id] of [60, 20, 40, 60, 5].entries()) timeline.apply(arrival(id), 4 + i);
  assert.deepEqual(ids(timeline), [60, 50, 40, 30, 20, 10, 5]);
});

test("an own post that is shown at once and pushed later stands once", () => {
  const timeline = read(page([10], 1));
  timeline.apply(arrival(20));
  timeline.apply(arrival(20), 2);
  assert.deepEqual(ids(timeline), [20, 10]);
});

test("what came while the first page was read is kept, unless the page knew it", () => {
  const timeline = new PostList();
  timeline.apply(arrival(20), 2);
  timeline.apply(gone(20), 3);
  timeline.apply(arrival(30), 4);
  timeline.apply(gone(10), 5);
  timeline.take(page([10], 3));
  assert.deepEqual(ids(timeline), [30]);
});

test("a push older than the page does not bring back what the page no longer has", () => {
  const timeline = read(page([10], 8));
  timeline.apply(arrival(20), 7);
  assert.deepEqual(ids(timeline), [10]);
});

test("an older page does not bring back what left after it was read", () => {
  const timeline = read(page([50, 40], 5, "c"));
  timeline.apply(gone(30, "unfollowed"), 7);
  timeline.take(page([30, 20], 6));
  assert.deepEqual(ids(timeline), [50, 40, 20]);
});

test("an older page read after a departure knows better", () => {
  const timeline = read(page([50, 40], 5, "c"));
  timeline.apply(gone(30, "unfollowed"), 7);
  timeline.take(page([30, 20], 9));
  assert.deepEqual(ids(timeline), [50, 40, 30, 20]);
});

test("what was unfollowed may come back, what was deleted may not", () => {
  const timeline = read(page([], 1));
  timeline.apply(gone(10, "unfollowed"), 2);
  timeline.apply(gone(20, "deleted"), 3);
  timeline.apply(arrival(10), 4);
  timeline.apply(arrival(20), 5);
  assert.deepEqual(ids(timeline), [10]);
});

test("an arrival below the loaded pages waits for its page: there is no gap above it", () => {
  const timeline = read(page([50, 40], 2, "c"));
  timeline.apply(arrival(15), 3);
  assert.deepEqual(ids(timeline), [50, 40]);
  timeline.take(page([30, 20], 3, "d"));
  assert.deepEqual(ids(timeline), [50, 40, 30, 20]);
  timeline.take(page([15, 10], 3));
  assert.deepEqual(ids(timeline), [50, 40, 30, 20, 15, 10]);
  assert.equal(timeline.next, null);
});

test("an edit changes what is there and adds nothing; the later edit stays", () => {
  const timeline = read(page([20, 10], 1, "c"));
  const edited = (id, at) => ({ type: "edited", post: post(id, { text: `edited ${at}`, edited_at: at }) });
  timeline.apply(edited(10, 200), 2);
  timeline.apply(edited(99, 200), 3);
  timeline.take({ items: [post(10, { text: "edited 100", edited_at: 100 })], position: { offset: 3, epoch: "e" } });
  assert.deepEqual(timeline.shown.map(({ text }) => text), ["post 20", "edited 200"]);
});

test("no more than a thousand departures are remembered", () => {
  const timeline = read(page([], 0, "c"));
  for (let id = 1; id <= 1_001; id += 1) timeline.apply(gone(id), id);
  timeline.take(page([3, 2, 1], 0));
  assert.deepEqual(ids(timeline), [1]);
});

test("kinds of events from the future are stepped over", () => {
  const timeline = read(page([10], 1));
  timeline.apply({ type: "read", id: 10, unread: 0 }, 2);
  timeline.apply({ type: "sparkle" }, 3);
  assert.deepEqual(ids(timeline), [10]);
});

test("any interleaving of pages and pushes ends where the log does", () => {
  // A seeded generator: a failure names the seed that reproduces it.
  for (let seed = 1; seed <= 300; seed += 1) {
    let state = seed * 2654435761;
    const below = (n) => {
      state = (state * 1664525 + 1013904223) % 4294967296;
      return Math.floor((state / 4294967296) * n);
    };
    const truth = new Set();
    const dead = new Set();
    const log = [];
    const act = () => {
      const id = 1 + below(40);
      if (truth.has(id)) {
        const reason = below(2) ? "deleted" : "unfollowed";
        truth.delete(id);
        if (reason === "deleted") dead.add(id);
        log.push(gone(id, reason));
      } else if (!dead.has(id)) {
        truth.add(id);
        log.push(arrival(id));
      }
    };
    const readPage = (before) => {
      const all = [...truth].filter((id) => id < before).sort((a, b) => b - a);
      const items = all.slice(0, 5);
      return page(items, log.length, all.length > 5 ? String(items.at(-1)) : undefined);
    };
    const timeline = new PostList();
    let delivered = 0;
    const deliver = () => {
      if (delivered < log.length) timeline.apply(log[delivered], ++delivered);
    };
    const meanwhile = () => {
      for (let n = below(8); n > 0; n -= 1) [act, deliver][below(2)]();
    };
    for (let n = 0; n < 15; n += 1) act();
    delivered = log.length;
    meanwhile();
    const first = readPage(Infinity);
    meanwhile();
    timeline.take(first);
    meanwhile();
    while (timeline.next !== null) {
      const older = readPage(Number(timeline.next));
      meanwhile();
      timeline.take(older);
      meanwhile();
    }
    while (delivered < log.length) deliver();
    assert.deepEqual(ids(timeline), [...truth].sort((a, b) => b - a), `seed ${seed}`);
  }
});
