// The client's likes, with a scripted server.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { NOTIFICATIONS, descending, page, post, setUp, standing } from "./client.mjs";
import { settled, startTime, stopTime, tick } from "./scripted.mjs";

beforeEach(stopTime);
afterEach(startTime);

test("a like is shown at once, held by its acknowledgement, and settled in the end", async () => {
  const { server, feedline, push } = await setUp();
  const heart = () => Object.values(feedline.timeline.entries[0].like);
  feedline.likes.toggle(feedline.timeline.entries[0].post);
  assert.deepEqual(heart(), [true, 1, "pending", ""]);
  await settled();
  server.socket.answerCall("likes.add", { state: "accepted", liked: true, likes: 6 });
  await settled();
  assert.deepEqual(heart(), [true, 6, "pending", ""], "five others were faster");
  await push(NOTIFICATIONS, { type: "like.settled", id: 30, liked: true, asks: 1, likes: 6, version: 6 });
  assert.deepEqual(heart(), [true, 6, "settled", ""]);
  assert.deepEqual([feedline.timeline.entries[0].post.liked, feedline.timeline.entries[0].post.likes], [true, 6]);
});

test("one request at a time, and the last wish is the last request", async () => {
  const { server, feedline, push } = await setUp();
  const heart = () => Object.values(feedline.timeline.entries[0].like);
  const toggle = () => feedline.likes.toggle(feedline.timeline.entries[0].post);
  toggle();
  await settled();
  for (const liked of [false, true, false]) assert.equal(toggle().liked, liked);
  await settled();
  const asked = () => server.socket.sent.flatMap(({ rpc }) => (rpc?.method.startsWith("likes.") ? [rpc.method] : []));
  assert.deepEqual(asked(), ["likes.add"]);
  // The settlement may come before the acknowledgement.
  await push(NOTIFICATIONS, { type: "like.settled", id: 30, liked: true, asks: 1, likes: 1, version: 1 });
  assert.deepEqual(heart(), [false, 0, "pending", ""]);
  server.socket.answerCall("likes.add", { state: "accepted", liked: true, likes: 1 });
  await settled();
  assert.deepEqual(asked(), ["likes.add", "likes.remove"]);
  server.socket.answerCall("likes.remove", { state: "accepted", liked: false, likes: 0 });
  await settled();
  assert.deepEqual(heart(), [false, 0, "pending", ""], "the settlement of the first wish is not that of the second");
  await push(NOTIFICATIONS, { type: "like.settled", id: 30, liked: false, asks: 1, likes: 0, version: 2 });
  assert.deepEqual(heart(), [false, 0, "settled", ""]);
});

test("counts that arrive while a like is pending never make its number jump", async () => {
  const { server, feedline, push } = await setUp();
  feedline.timeline.watch([30]);
  await settled();
  server.socket.answer("subscribe", standing(0));
  feedline.likes.toggle(feedline.timeline.entries[0].post);
  const seen = new Set([feedline.timeline.entries[0].like.likes]);
  feedline.timeline.on("change", () => seen.add(feedline.timeline.entries[0].like.likes));
  await settled();
  server.socket.answerCall("likes.add", { state: "accepted", liked: true, likes: 1 });
  await settled();
  for (const version of [1, 2]) await push("post:30", { type: "counts", id: 30, likes: 1, comments: 0, version });
  await push(NOTIFICATIONS, { type: "like.settled", id: 30, liked: true, asks: 1, likes: 1, version: 1 });
  assert.deepEqual([...seen], [1]);
  assert.equal(feedline.timeline.entries[0].like.state, "settled");
  await push("post:30", { type: "counts", id: 30, likes: 2, comments: 0, version: 3 });
  assert.deepEqual(Object.values(feedline.timeline.entries[0].like), [true, 2, "settled", ""]);
});

test("a reverted like goes back to what was, and says why until that is read", async () => {
  const { server, feedline, push } = await setUp();
  const heart = () => Object.values(feedline.timeline.entries[0].like);
  const reasons = [];
  feedline.likes.on("reverted", ({ reason }) => reasons.push(reason));
  feedline.likes.toggle(feedline.timeline.entries[0].post);
  await settled();
  server.socket.answerCall("likes.add", { state: "accepted", liked: true, likes: 1 });
  await push(NOTIFICATIONS, { type: "like.reverted", id: 30, reason: "failed" }, 1);
  assert.deepEqual(heart(), [false, 0, "reverted", "failed"]);
  feedline.likes.dismiss(30);
  assert.deepEqual(heart(), [false, 0, "settled", ""]);
  feedline.likes.toggle(feedline.timeline.entries[0].post);
  await settled();
  server.socket.refuseCall("likes.add", { code: 404, message: "no such post" });
  await settled();
  assert.deepEqual(heart(), [false, 0, "reverted", "gone"]);
  assert.deepEqual(reasons, ["failed", "gone"]);
});

test("a like on another device fills the heart, and the latest version holds", async () => {
  const { feedline, push } = await setUp();
  const heart = () => Object.values(feedline.timeline.entries[0].like);
  const changed = (liked, likes, version) =>
    push(NOTIFICATIONS, { type: "like.changed", id: 30, liked, likes, version });
  await changed(true, 3, 5);
  assert.deepEqual(heart(), [true, 3, "settled", ""]);
  await changed(false, 2, 4);
  assert.deepEqual(heart(), [true, 3, "settled", ""], "an older one that came late");
  await changed(false, 2, 6);
  assert.deepEqual(heart(), [false, 2, "settled", ""]);
  assert.equal(feedline.timeline.entries[0].post.type, undefined, "nothing else gets into the post");
});

test("a like on another device does not settle one that is pending here", async () => {
  const { server, feedline, push } = await setUp();
  const heart = () => Object.values(feedline.timeline.entries[0].like);
  feedline.likes.toggle(feedline.timeline.entries[0].post);
  await settled();
  server.socket.answerCall("likes.add", { state: "accepted", liked: true, likes: 1 });
  await settled();
  await push(NOTIFICATIONS, { type: "like.changed", id: 30, liked: false, likes: 0, version: 9 });
  assert.deepEqual(heart(), [true, 1, "pending", ""]);
  await push(NOTIFICATIONS, { type: "like.settled", id: 30, liked: true, asks: 1, likes: 1, version: 8 });
  assert.deepEqual(heart(), [false, 0, "settled", ""], "what was done elsewhere came later");
});

test("a reversal is shown in the tab that did not ask, with what the server has", async () => {
  const { server, feedline, push } = await setUp();
  await push(NOTIFICATIONS, { type: "like.reverted", id: 30, reason: "failed" }, 1);
  assert.equal(feedline.timeline.entries[0].like.state, "reverted");
  server.socket.answerCall("posts.get", post(30, { liked: true, likes: 4 }));
  await settled();
  assert.deepEqual(Object.values(feedline.timeline.entries[0].like), [true, 4, "reverted", "failed"]);
});

test("a reversal of a comment's like is shown in the tab that did not ask", async () => {
  const { server, feedline, push } = await setUp();
  const read = [];
  feedline.likes.on("settled", (like) => read.push(like));
  await push(NOTIFICATIONS, { type: "like.reverted", id: 77, reason: "failed" }, 1);
  server.socket.refuseCall("posts.get", { code: 404, message: "not_found: no such post" });
  await settled();
  server.socket.answerCall("comments.get", { id: 77, post: 30, text: "hi", liked: false, likes: 2 });
  await settled();
  assert.deepEqual(read, [{ id: 77, liked: false, likes: 2 }]);
  assert.equal(feedline.likes.view({ id: 77, likes: 2 }).state, "reverted");
});

test("after a lost connection the likes of all posts are read anew, a hundred at a time", async () => {
  const ids = descending(250, 1);
  const { server, feedline, reconnect } = await setUp(page(ids, 3));
  feedline.likes.toggle(feedline.timeline.entries[1].post);
  await settled();
  await reconnect(standing(3, { recovered: true, was_recovering: true }));
  const asked = [];
  for (let at = 0; at < 3; at += 1) {
    const { ids: wanted } = server.socket.call("posts.many").rpc.data;
    asked.push(wanted);
    server.socket.answerCall("posts.many", { items: wanted.map((id) => post(id, { liked: true, likes: 7 })) });
    await settled();
  }
  assert.deepEqual(asked.map(({ length }) => length), [100, 100, 50]);
  assert.deepEqual(asked.flat(), ids);
  const [first, second, , last] = feedline.timeline.entries.map(({ like }) => [like.liked, like.likes, like.state]);
  assert.deepEqual([first, last], [[true, 7, "settled"], [true, 7, "settled"]]);
  assert.deepEqual(second, [true, 1, "pending"], "one that is pending keeps its number");
});

test("a like over the rate is tried again, and given up in the end", async () => {
  const { server, feedline } = await setUp();
  feedline.likes.toggle(feedline.timeline.entries[0].post);
  for (let attempt = 1; attempt <= 6; attempt += 1) {
    assert.equal(feedline.timeline.entries[0].like.state, "pending", `attempt ${attempt}`);
    await settled();
    server.socket.refuseCall("likes.add", { code: 429, message: "rate limited", temporary: true });
    await settled();
    assert.equal(server.socket.sent.filter(({ rpc }) => rpc?.method === "likes.add").length, attempt, "not at once");
    tick(9_000);
    await settled();
    server.socket.say({});
  }
  assert.deepEqual(Object.values(feedline.timeline.entries[0].like), [false, 0, "reverted", "rate_limited"]);
  assert.equal(server.socket.sent.filter(({ rpc }) => rpc?.method === "likes.add").length, 6);
});

test("after a lost connection an acknowledged like holds, another is asked for again", async () => {
  const { server, feedline, reconnect } = await setUp();
  feedline.likes.toggle(feedline.timeline.entries[0].post);
  await settled();
  server.socket.answerCall("likes.add", { state: "accepted", liked: true, likes: 1 });
  feedline.likes.toggle(feedline.timeline.entries[1].post);
  await settled();
  await reconnect(standing(3, { recovered: true, was_recovering: true }));
  assert.deepEqual(Object.values(feedline.timeline.entries[0].like), [true, 1, "settled", ""]);
  assert.deepEqual(Object.values(feedline.timeline.entries[1].like), [true, 1, "pending", ""]);
  assert.deepEqual(server.socket.call("likes.add").rpc.data, { post: 20 });
});
