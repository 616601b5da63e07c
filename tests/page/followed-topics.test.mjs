// The store of followed topics, and the topic of a post in a timeline.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { followedTopicsOf } from "../../web/followed-topics.js";
import { TIMELINE, post, setUp, shown, standing } from "./client.mjs";
import { settled, startTime, stopTime } from "./scripted.mjs";

beforeEach(stopTime);
afterEach(startTime);

/** A store whose server answers when it is told to: `asked` has what was asked for, oldest first. */
function open() {
  const asked = [];
  const handlers = [];
  const rpc = (method, input) =>
    new Promise((resolve, reject) => asked.push({ method, input, resolve, reject: () => reject(new Error("no")) }));
  const connection = { rpc, insist: (ask) => ask(), on: (_, handler) => handlers.push(handler) };
  const app = { client: { connection } };
  const state = (name) => handlers.forEach((handler) => handler({ name }));
  return { app, asked, state, topics: followedTopicsOf(app) };
}
const reply = (...names) => ({ items: names.map((name) => ({ name, followed_at: 1 })) });

test("a topic is followed at once, and again not if the server refuses", async () => {
  const { topics, asked } = open();
  const heard = [];
  topics.on(() => heard.push(topics.has("rust")));
  const refused = topics.set("rust", true);
  assert.deepEqual([asked[0].method, asked[0].input], ["topics.follow", { name: "rust" }]);
  assert.equal(topics.has("rust"), true);
  asked[0].reject();
  await assert.rejects(refused);
  assert.deepEqual([topics.has("rust"), heard, asked.length], [false, [true, false], 1]);
});

test("what was done is kept, also if it cannot be read anew", async () => {
  const { topics, asked } = open();
  const read = topics.read();
  asked[0].resolve(reply("moss", "tea"));
  await read;
  const follow = topics.set("rust", true);
  asked[1].resolve({});
  await follow;
  assert.deepEqual(topics.names, ["moss", "rust", "tea"]);
  asked[2].reject();
  await settled();
  const unfollow = topics.set("moss", false);
  assert.deepEqual([asked[3].method, asked[3].input], ["topics.unfollow", { name: "moss" }]);
  asked[3].resolve({});
  await unfollow;
  assert.deepEqual([topics.names, topics.has("moss")], [["rust", "tea"], false]);
});

test("what was read before a change does not undo it", async () => {
  const { topics, asked } = open();
  const early = topics.read().then(() => "early");
  const follow = topics.set("rust", true);
  asked[1].resolve({});
  await follow;
  asked[0].resolve(reply());
  assert.equal(await Promise.race([early, settled().then(() => "waits")]), "waits");
  assert.equal(topics.has("rust"), true);
  asked[2].resolve(reply("art", "rust"));
  await early;
  assert.deepEqual(topics.names, ["art", "rust"]);
});

test("they are read anew when the connection is back, and there is one store for each user", async () => {
  const { app, topics, asked, state } = open();
  state("lost");
  assert.equal(asked.length, 0);
  state("live");
  asked[0].resolve(reply("tea"));
  await settled();
  assert.deepEqual(topics.names, ["tea"]);
  assert.equal(followedTopicsOf(app), topics);
  assert.notEqual(followedTopicsOf(open().app), topics);
});

test("a post keeps the topic that brought it when its own channel says that it was edited", async () => {
  const { server, feedline, push, arrive } = await setUp();
  await arrive(40, 4, { via: { topic: "rust" } });
  feedline.timeline.watch([40]);
  await settled();
  server.socket.answer("subscribe", standing(0));
  await push("post:40", { type: "edited", post: post(40, { text: "edited", edited_at: 50 }) }, 1);
  const [entry] = feedline.timeline.entries;
  assert.deepEqual([entry.post.text, entry.post.via], ["edited", { topic: "rust" }]);
});

test("posts leave with a topic that is unfollowed, and come back to their places", async () => {
  const { feedline, push, arrive } = await setUp();
  await arrive(40, 4, { via: { topic: "rust" } });
  await push(TIMELINE, { type: "gone", id: 40, reason: "unfollowed" }, 5);
  assert.deepEqual(shown(feedline), [30, 20, 10]);
  await arrive(25, 6, { via: { topic: "rust" } });
  await arrive(40, 7, { via: { topic: "rust" } });
  assert.deepEqual(shown(feedline), [40, 30, 25, 20, 10]);
  // Now the reader follows its author.
  await arrive(40, 8);
  const brought = feedline.timeline.entries.filter((entry) => entry.post.via);
  assert.deepEqual(brought.map(({ id }) => id), [25]);
});
