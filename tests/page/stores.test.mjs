// The client's stores of posts, notifications, markers and names, with a scripted server.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { NOTIFICATIONS, TIMELINE, descending, page, post, setUp, shown, standing } from "./client.mjs";
import { settled, startTime, stopTime, tick } from "./scripted.mjs";

beforeEach(stopTime);
afterEach(startTime);

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc");

test("an own post that is pushed before its reply is not shown twice", async () => {
  const { server, feedline, arrive } = await setUp();
  const key = feedline.timeline.post({ text: "mine" });
  assert.equal(feedline.timeline.entries[0].post.text, "mine");
  await settled();
  await arrive(40, 4, { author: "ann", text: "mine" });
  await arrive(35, 5);
  assert.deepEqual(shown(feedline), [key, 35, 30, 20, 10]);
  server.socket.answerCall("posts.create", post(40, { author: "ann", text: "mine" }));
  await settled();
  assert.deepEqual(shown(feedline), [40, 35, 30, 20, 10]);
  assert.equal(feedline.timeline.entries[0].key, key, "its element stays");
  assert.equal(feedline.timeline.entries[0].state, "stored");
});

test("a post of another tab waits only for the reply of one's own", async () => {
  const { server, feedline, arrive } = await setUp();
  const key = feedline.timeline.post({ text: "mine" });
  await settled();
  await arrive(40, 4, { author: "ann", text: "from the other tab" });
  assert.deepEqual(shown(feedline), [key, 30, 20, 10]);
  server.socket.refuseCall("posts.create", { code: 400, message: "no", field: "text" });
  await settled();
  assert.deepEqual(shown(feedline), [key, 40, 30, 20, 10]);
  assert.deepEqual([feedline.timeline.entries[0].state, feedline.timeline.entries[0].error.field], ["failed", "text"]);
});

test("what may have been stored is sent again with its key, what was refused with another", async () => {
  const { server, feedline, reconnect } = await setUp();
  const key = feedline.timeline.post({ text: "mine" });
  await settled();
  const first = server.socket.call("posts.create").rpc.data.idempotency_key;
  await reconnect(standing(3, { recovered: true, was_recovering: true }));
  assert.equal(server.socket.call("posts.create").rpc.data.idempotency_key, first);
  server.socket.refuseCall("posts.create", { code: 503, message: "unavailable", temporary: true });
  await settled();
  assert.equal(feedline.timeline.entries[0].state, "pending");
  tick(9_000);
  await settled();
  assert.equal(server.socket.call("posts.create").rpc.data.idempotency_key, first);
  server.socket.refuseCall("posts.create", { code: 422, message: "too long" });
  await settled();
  feedline.timeline.retry(key);
  await settled();
  assert.notEqual(server.socket.call("posts.create").rpc.data.idempotency_key, first);
});

test("posts are sent one at a time, in their order", async () => {
  const { server, feedline } = await setUp();
  for (const text of ["one", "two"]) feedline.timeline.post({ text });
  await settled();
  assert.deepEqual(server.socket.sent.flatMap(({ rpc }) => rpc?.data.text ?? []), ["one"]);
  server.socket.answerCall("posts.create", post(40, { author: "ann", text: "one" }));
  await settled();
  assert.equal(server.socket.call("posts.create").rpc.data.text, "two");
});

test("new posts wait while one reads further down, and no more than agreed are kept", async () => {
  const { server, feedline, arrive } = await setUp(page(descending(110, 101), 3, "older"), { keep: 10 });
  for (let id = 111; id <= 120; id += 1) await arrive(id, id);
  assert.deepEqual(shown(feedline), descending(120, 111), "at the top they come in at once");
  feedline.timeline.atTop = false;
  await arrive(121, 121, { author: "cy" });
  assert.deepEqual(shown(feedline), descending(120, 111));
  assert.equal(feedline.timeline.waiting, 1);
  feedline.timeline.atTop = true;
  assert.deepEqual(shown(feedline), descending(121, 112));
  assert.equal(feedline.timeline.waiting, 0);
  feedline.timeline.atTop = false;
  for (let id = 122; id <= 150; id += 1) await arrive(id, id);
  assert.deepEqual([feedline.timeline.waiting, shown(feedline)], [29, descending(121, 112)]);
  feedline.timeline.atTop = true;
  await settled();
  server.socket.answerCall("timeline.read", page(descending(150, 145), 150, "older"));
  await settled();
  assert.deepEqual([feedline.timeline.waiting, shown(feedline)], [0, descending(150, 145)]);
});

test("older pages are read to the end, and a trimmed end is found again", async () => {
  const { server, feedline, arrive } = await setUp(page(descending(110, 101), 3, "p101"), { keep: 10 });
  await arrive(111, 4);
  assert.deepEqual(shown(feedline), descending(111, 102));
  const failing = feedline.timeline.loadOlder();
  await settled();
  assert.equal(feedline.timeline.isLoadingOlder, true);
  server.socket.refuseCall("timeline.read", { code: 503, message: "unavailable", temporary: true });
  await failing;
  assert.deepEqual([feedline.timeline.error.code, feedline.timeline.isLoadingOlder], [503, false]);
  const loading = feedline.timeline.loadOlder();
  await settled();
  assert.equal(server.socket.call("timeline.read").rpc.data.cursor, undefined);
  server.socket.answerCall("timeline.read", page(descending(111, 105), 4, "p105"));
  await settled();
  assert.equal(server.socket.call("timeline.read").rpc.data.cursor, "p105");
  server.socket.answerCall("timeline.read", page(descending(104, 98), 4));
  await loading;
  assert.deepEqual(shown(feedline), descending(107, 98));
  assert.deepEqual([feedline.timeline.hasOlder, feedline.timeline.error], [false, null]);
});

test("a recovered connection leaves a mark, one that is not reads anew", async () => {
  const { server, feedline, reconnect } = await setUp();
  const publications = [40, 50].map((id, i) => ({ offset: 4 + i, data: { type: "post", post: post(id) } }));
  await reconnect(standing(3, { recovered: true, was_recovering: true, publications }));
  assert.deepEqual(shown(feedline), [50, 40, 30, 20, 10]);
  const [recovered] = feedline.timeline.marks;
  assert.deepEqual([recovered.kind, recovered.below, recovered.posts, recovered.lostFor], ["recovered", 30, 2, 9_000]);
  await reconnect(standing(1, { was_recovering: true, epoch: "f" }));
  assert.deepEqual(shown(feedline), [50, 40, 30, 20, 10], "what is shown stays until the new page is there");
  server.socket.answerCall("timeline.read", page([60, 40], 1));
  await settled();
  assert.deepEqual(shown(feedline), [60, 40]);
  assert.deepEqual([feedline.timeline.marks[0].kind, feedline.timeline.marks[0].below], ["reloaded", 50]);
});

test("a timeline is read anew as far down as the reader is, and not in between", async () => {
  const { server, feedline, reconnect } = await setUp(page(descending(130, 101), 3, "p101"));
  feedline.timeline.atTop = false;
  await reconnect(standing(1, { was_recovering: true, epoch: "f" }));
  server.socket.answerCall("timeline.read", page(descending(135, 116), 1, "p116"));
  await settled();
  assert.equal(server.socket.call("timeline.read").rpc.data.cursor, "p116");
  assert.deepEqual(shown(feedline), descending(130, 101));
  server.socket.answerCall("timeline.read", page(descending(115, 96), 1, "p96"));
  await settled();
  assert.deepEqual([shown(feedline), feedline.timeline.waiting], [descending(130, 96), 5]);
});

test("a page that could not be read is read when the connection is back, though that one recovers", async () => {
  const { server, feedline, reconnect } = await setUp();
  await reconnect(standing(1, { was_recovering: true, epoch: "f" }));
  await reconnect(standing(1, { was_recovering: true, recovered: true, epoch: "f" }));
  server.socket.answerCall("timeline.read", page([60], 1));
  await settled();
  assert.deepEqual(shown(feedline), [60]);
});

test("a timeline that is read anew again is read once when the connection is back", async () => {
  const { server, feedline, reconnect } = await setUp();
  feedline.timeline.reload();
  await settled();
  await reconnect(standing(1, { was_recovering: true, epoch: "f" }));
  assert.equal(server.socket.sent.filter(({ rpc }) => rpc?.method === "timeline.read").length, 1);
});

test("a failed read is repeated while the connection is there", async () => {
  const { server, feedline } = await setUp();
  feedline.timeline.reload();
  await settled();
  server.socket.refuseCall("timeline.read", { code: 503, message: "unavailable", temporary: true });
  await settled();
  assert.deepEqual([feedline.timeline.state, feedline.timeline.error.code, shown(feedline).length], ["ready", 503, 3]);
  tick(2_000);
  await settled();
  server.socket.answerCall("timeline.read", page([60], 4));
  await settled();
  assert.deepEqual([feedline.timeline.error, shown(feedline)], [null, [60]]);
});

test("what did not change is the same entry", async () => {
  const { feedline, arrive, push } = await setUp();
  const before = feedline.timeline.entries;
  await arrive(40, 4);
  await push(TIMELINE, { type: "edited", post: post(20, { text: "edited", edited_at: 5 }) }, 5);
  const after = feedline.timeline.entries;
  assert.deepEqual([after[1] === before[0], after[2] === before[1], after[3] === before[2]], [true, false, true]);
});

test("many arrivals in one frame are one change", async () => {
  const { server, feedline } = await setUp();
  let changes = 0;
  feedline.timeline.on("change", () => (changes += 1));
  server.socket.say(...[40, 50, 60].map((id, i) => server.push(TIMELINE, { type: "post", post: post(id) }, 4 + i)));
  await settled();
  assert.deepEqual([changes, shown(feedline).length], [1, 6]);
});

test("counts of an older version do not come back", async () => {
  const { server, feedline, push } = await setUp();
  feedline.timeline.watch([30, 20]);
  await settled();
  for (const { id, subscribe } of server.socket.sent.filter((one) => one.subscribe)) {
    server.socket.say({ id, subscribe: standing(0, { channel: subscribe.channel }) });
  }
  const counts = (likes, version) => push("post:30", { type: "counts", id: 30, likes, comments: 1, version });
  await counts(7, 9);
  await counts(5, 8);
  assert.deepEqual([feedline.timeline.entries[0].post.likes, feedline.timeline.entries[0].post.comments], [7, 1]);
  feedline.timeline.watch([20]);
  await settled();
  assert.deepEqual(server.socket.last("unsubscribe").unsubscribe, { channel: "post:30" });
});

test("older posts can be read again after the timeline was read anew meanwhile", async () => {
  const { server, feedline } = await setUp(page(descending(110, 101), 3, "p101"));
  const calls = () => server.socket.sent.filter(({ rpc }) => rpc?.method === "timeline.read");
  const loading = feedline.timeline.loadOlder();
  await settled();
  const [, older] = calls();
  feedline.timeline.reload();
  await settled();
  server.socket.answerCall("timeline.read", page(descending(110, 101), 3, "p101"));
  await settled();
  server.socket.say({ id: older.id, rpc: { data: page(descending(100, 91), 3, "p91") } });
  await loading;
  assert.deepEqual([feedline.timeline.isLoadingOlder, shown(feedline)], [false, descending(110, 101)]);
  feedline.timeline.loadOlder();
  await settled();
  assert.equal(server.socket.call("timeline.read").rpc.data.cursor, "p101");
});


test("notifications: a group stands once, newest first; counts follow", async () => {
  const { server, feedline, push } = await setUp();
  const fresh = { kind: "like", count: 1, people: [], read: false, seen: false };
  let position = 0;
  const group = (id, more = {}) => ({ id, position: ++position, ...fresh, created_at: id, updated_at: id, ...more });
  const { notifications } = feedline;
  const counts = () => [notifications.items.map(({ id }) => id), notifications.unread, notifications.unseen];
  const arrive = (notification) => push(NOTIFICATIONS, { type: "notification", notification });
  await arrive(group(1));
  await arrive(group(2));
  await arrive(group(1, { count: 2, updated_at: 3 }));
  assert.deepEqual(counts(), [[1, 2], 2, 2]);
  feedline.notifications.markSeen();
  assert.deepEqual(counts(), [[1, 2], 2, 0]);
  const marks = server.socket.sent.filter(({ rpc }) => rpc?.method === "notifications.mark_read");
  assert.deepEqual(marks.map(({ rpc }) => rpc.data), [{ position: 3, seen: true }], "as it is listed");
  const read = { type: "notifications.read", position: 2, id: 2, seen: false };
  await push(NOTIFICATIONS, { ...read, unread: 1, unseen: 0 });
  assert.deepEqual([...counts(), feedline.notifications.items.map(({ read }) => read)], [[1, 2], 1, 0, [false, true]]);
  await arrive(group(2, { count: 2, updated_at: 4 }));
  assert.deepEqual(counts(), [[2, 1], 2, 1]);
  await push(NOTIFICATIONS, { type: "notification.gone", id: 2 });
  assert.deepEqual(counts(), [[1], 1, 0]);
  await arrive(group(0, { updated_at: 5 }));
  await settled();
  assert.ok(server.socket.call("notifications.list"), "whether it was counted already only the server knows");
  server.socket.answerCall("notifications.list", { items: [group(0), group(1)], unread: 9, unseen: 8 });
  await settled();
  assert.deepEqual(counts(), [[0, 1], 9, 8]);
  for (let id = 10; id < 300; id += 1) await arrive(group(id));
  assert.equal(feedline.notifications.items.length, 200);
});

test("the read marker is sent at most twice a second and never goes back", async () => {
  const { server, feedline, push, arrive, reconnect } = await setUp();
  await arrive(40, 4);
  await arrive(50, 5, { author: "ann" });
  assert.equal(feedline.readMarker.unread, 1, "one's own posts are not unread");
  for (const id of [20, 40, 30]) feedline.readMarker.mark(id);
  tick(500);
  await settled();
  const marks = server.socket.sent.filter(({ rpc }) => rpc?.method === "timeline.mark_read");
  assert.deepEqual(marks.map(({ rpc }) => rpc.data.id), [40]);
  server.socket.answerCall("timeline.mark_read", { id: 40, unread: 0 });
  await settled();
  await push(TIMELINE, { type: "read", id: 10, unread: 9 });
  assert.deepEqual([feedline.readMarker.id, feedline.readMarker.unread], [40, 0]);
  await reconnect(standing(5, { recovered: true, was_recovering: true }));
  server.socket.answerCall("timeline.read", { ...page([], 5), read: { id: 50, unread: 0 } });
  await settled();
  assert.equal(feedline.readMarker.id, 50, "another tab moved it while this one was away");
});

test("names that pages do not bring are asked for once", async () => {
  const { server, feedline, reconnect } = await setUp();
  assert.equal(feedline.people.get("bo").name, "Bo");
  assert.deepEqual([feedline.people.get("cy"), feedline.people.get("cy").name], [{ id: "cy", name: "cy" }, "cy"]);
  await settled();
  assert.equal(server.socket.sent.filter(({ rpc }) => rpc?.method === "users.get").length, 1);
  server.socket.answerCall("users.get", { id: "cy", name: "Cy", followers: 3 });
  await settled();
  assert.deepEqual(feedline.people.get("cy"), { id: "cy", name: "Cy", avatar: undefined });
  feedline.people.get("di");
  await settled();
  await reconnect(standing(3, { recovered: true, was_recovering: true }));
  feedline.people.get("di");
  await settled();
  assert.deepEqual(server.socket.call("users.get").rpc.data, { id: "di" }, "what was lost is asked for again");
  for (let n = 0; n < 1_000; n += 1) feedline.people.add({ [`u${n}`]: { id: `u${n}`, name: "U" } });
  assert.equal(feedline.people.get("u0").name, "U");
  assert.equal(feedline.people.get("cy").name, "cy", "no more than agreed are kept");
});

test("a tab that is open for a day stays small", async () => {
  const { server, feedline, push } = await setUp(page([], 0), { keep: 50 });
  const size = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const day = async (from, to) => {
    for (let id = from; id < to; id += 1) {
      server.socket.say(server.push(TIMELINE, { type: "post", post: post(id, { text: "x".repeat(500) }) }, id));
      if (id % 3 === 0) server.socket.say(server.push(TIMELINE, { type: "gone", id: id - 1, reason: "deleted" }, id));
      if (id % 100 === 0) await push(NOTIFICATIONS, { type: "like.reverted", id, reason: "gone" });
      server.socket.sent.length = 0;
    }
  };
  await day(1, 20_000);
  const before = size();
  await day(20_000, 60_000);
  const grown = size() - before;
  assert.ok(shown(feedline).length <= 50);
  assert.ok(grown < 2_000_000, `${grown} bytes more`);
});
