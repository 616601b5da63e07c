// Muted words: what a change of them reads anew, and what of a post that a filter hides is left in a timeline.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { PostList } from "../../web/feedline/posts.js";
import { NOTIFICATIONS, TIMELINE, page, post, setUp, shown, standing } from "./client.mjs";
import { settled, startTime, stopTime } from "./scripted.mjs";

beforeEach(stopTime);
afterEach(startTime);

const HOUR = 3_600_000 * 4096;
const at = (hour) => 1 + hour * HOUR;
const gone = (id) => ({ type: "gone", id, reason: "filtered" });
const CHANGED = { type: "filters.changed" };
/** How often an operation was called. */
const reads = ({ socket }, method) => socket.sent.filter(({ rpc }) => rpc?.method === method).length;

test("a change of the filters reads the timeline and the notifications anew, in place", async () => {
  const { server, feedline, push } = await setUp();
  const heard = [];
  feedline.connection.on("filters", (event) => heard.push(event));
  await push(NOTIFICATIONS, CHANGED, 1);
  assert.deepEqual(heard, [CHANGED]);
  assert.deepEqual(shown(feedline), [30, 20, 10], "what is shown stays until the page is there");
  const marked = page([30, 10], 3);
  marked.items[0].filtered = [7];
  server.socket.answerCall("timeline.read", marked);
  server.socket.answerCall("notifications.list", { items: [], unread: 2, unseen: 0 });
  await settled();
  assert.deepEqual(shown(feedline), [30, 10]);
  assert.deepEqual(feedline.timeline.entries.map((entry) => entry.post.filtered), [[7], undefined]);
  assert.deepEqual([feedline.notifications.unread, feedline.timeline.marks], [2, []]);
});

test("so it does for other lists of posts and for comments, as long as they are open", async () => {
  const { server, feedline, push } = await setUp();
  const topic = feedline.openTimeline({ method: "topics.read", params: { name: "rust" } });
  const comments = feedline.openComments(10);
  await settled();
  server.socket.answer("subscribe", standing(0));
  await settled();
  server.socket.answerCall("topics.read", page([30, 20], 3));
  server.socket.answerCall("comments.list", { items: [{ id: 11, text: "one" }, { id: 12, text: "two" }] });
  await settled();
  await push(NOTIFICATIONS, CHANGED, 1);
  server.socket.answerCall("topics.read", page([20], 3));
  server.socket.answerCall("comments.list", { items: [{ id: 12, text: "two", filtered: [7] }] });
  await settled();
  assert.deepEqual(topic.entries.map(({ id }) => id), [20]);
  assert.deepEqual(comments.items, [{ id: 12, text: "two", filtered: [7] }]);
  const edited = { type: "edited", comment: { id: 12, text: "due", edited_at: 5 } };
  await push("post:10", edited, 1);
  assert.equal(comments.items[0].filtered, undefined, "it has no muted words any more");
  for (const list of [topic, comments]) list.close();
  await push(NOTIFICATIONS, CHANGED, 2);
  assert.deepEqual(["topics.read", "comments.list", "timeline.read"].map((method) => reads(server, method)), [2, 2, 3]);
});

test("an event of the post's own channel, where no filter applies, leaves the mark", async () => {
  const { server, feedline, push } = await setUp();
  await push(TIMELINE, { type: "post", post: post(40, { filtered: [7] }) }, 4);
  feedline.timeline.watch([40]);
  await settled();
  server.socket.answer("subscribe", standing(0));
  await push("post:40", { type: "edited", post: post(40, { text: "edited", edited_at: 50 }) }, 1);
  const [entry] = feedline.timeline.entries;
  assert.deepEqual([entry.post.text, entry.post.filtered], ["edited", [7]]);
  await push(TIMELINE, { type: "edited", post: post(40, { text: "edited", edited_at: 50 }) }, 5);
  assert.equal(feedline.timeline.entries[0].post.filtered, undefined);
});

test("a change that was missed is made up for after a lost connection", async () => {
  const { server, feedline, reconnect } = await setUp();
  const missed = [{ data: CHANGED, offset: 1 }];
  const standingThere = { recovered: true, was_recovering: true };
  await reconnect(standing(3, standingThere), { ...standingThere, publications: missed });
  server.socket.answerCall("timeline.read", page([30], 3));
  await settled();
  assert.deepEqual(shown(feedline), [30]);
});

test("a post that a filter hides leaves, and with it its reposts and what quotes show of it", () => {
  const list = new PostList(true);
  const quote = { id: at(0), state: "shown", post: post(at(0)) };
  list.take({ items: [post(at(9), { quote }), post(at(0))], position: { offset: 1, epoch: "e" } });
  list.apply({ type: "reposted", id: at(0), repost: at(1), by: { id: "cy", name: "Cy" } }, 2);
  list.apply(gone(at(0)), 3);
  assert.deepEqual(list.shown.map(({ id }) => id), [at(9)]);
  assert.deepEqual(list.posts.get(at(9)).quote, { id: at(0), state: "unavailable" });
  assert.equal(list.isStale, false);
});

test("new posts that a filter hides read nothing anew, whatever was reposted", async () => {
  const { server, feedline, push } = await setUp();
  const reposted = { ...post(20), reposted_by: { people: ["cy"], count: 1 } };
  feedline.timeline.list.take({ ...page([10], 3), items: [reposted] });
  await push(TIMELINE, gone(40), 4);
  assert.equal(feedline.timeline.list.isStale, false);
  await push(TIMELINE, { type: "post", post: post(50, { filtered: [7] }) }, 5);
  assert.deepEqual(feedline.timeline.entries.map((entry) => entry.post.filtered ?? entry.id), [[7], 30, 20, 10]);
  // An edit may take the words out, or bring them in.
  await push(TIMELINE, { type: "edited", post: post(50, { edited_at: 60 }) }, 6);
  await push(TIMELINE, { type: "edited", post: post(20, { edited_at: 60, filtered: [7] }) }, 7);
  assert.deepEqual(feedline.timeline.entries.map((entry) => entry.post.filtered ?? entry.id), [50, 30, [7], 10]);
  assert.equal(reads(server, "timeline.read"), 1);
});
