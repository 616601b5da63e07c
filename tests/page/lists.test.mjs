// The store of the user's lists: what is read later wins, changes are read anew, the next visit begins with the names.
// The store of the posts of a list: it follows the list's channel.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { listsOf } from "../../web/lists.js";
import { TIMELINE, page, post, setUp as connect, standing } from "./client.mjs";
import { settled, startTime, stopTime, tick } from "./scripted.mjs";

beforeEach(stopTime);
afterEach(startTime);

const LIST = "list:7";

const list = (id, name, more = {}) => ({ id, name, exclusive: false, users: 0, topics: 0, created_at: 1, ...more });

/** An application whose server answers when it is told to: `asked` has what was asked for, oldest first. */
function setUp(session = {}) {
  const asked = [];
  const handlers = [];
  const rpc = (method, input) =>
    new Promise((resolve, reject) => asked.push({ method, input, resolve, reject: () => reject(new Error("no")) }));
  const connection = { rpc, insist: (ask) => ask(), on: (_, handler) => handlers.push(handler) };
  const app = { session: { user: "ann", key: "k", ...session }, client: { connection } };
  const state = (name) => handlers.forEach((handler) => handler({ name }));
  return { app, asked, state, lists: listsOf(app) };
}
const names = (lists) => lists.items.map(({ name }) => name);

test("what was asked for later wins, and who asked earlier waits for it", async () => {
  const { lists, asked } = setUp();
  const heard = [];
  lists.on(() => heard.push(names(lists)));
  const first = lists.read().then(() => "first");
  const second = lists.read();
  asked[0].resolve({ items: [list(1, "old")] });
  assert.equal(await Promise.race([first, settled().then(() => "waits")]), "waits");
  assert.equal(lists.isRead, false);
  asked[1].resolve({ items: [list(1, "new")] });
  await Promise.all([first, second]);
  assert.deepEqual([names(lists), heard], [["new"], [["new"]]]);
  const [third, fourth] = [lists.read(), lists.read()];
  asked[3].resolve({ items: [list(1, "newest")] });
  await fourth;
  asked[2].resolve({ items: [list(1, "late")] });
  await third;
  assert.deepEqual(names(lists), ["newest"]);
});

test("a change is read anew, and is done also if that fails", async () => {
  const { lists, asked } = setUp();
  const made = lists.create({ name: "Friends" });
  assert.deepEqual([asked[0].method, asked[0].input], ["lists.create", { name: "Friends" }]);
  asked[0].resolve(list(7, "Friends"));
  await settled();
  asked[1].resolve({ items: [list(7, "Friends")] });
  assert.equal((await made).id, 7);
  assert.equal(lists.find(7).name, "Friends");
  const added = lists.setMember(7, { user: "bo" }, true);
  asked[2].resolve({});
  await settled();
  asked[3].reject();
  await added;
  const removed = lists.setMember(7, { topic: "rust" }, false);
  assert.deepEqual([asked[2].method, asked[2].input], ["lists.add", { id: 7, user: "bo" }]);
  assert.deepEqual([asked[4].method, asked[4].input], ["lists.remove", { id: 7, topic: "rust" }]);
  asked[4].reject();
  await assert.rejects(removed);
  assert.equal(asked.length, 5, "what was refused changed nothing");
  assert.deepEqual(names(lists), ["Friends"]);
});

test("the next visit begins with the names, and nothing else is kept", async () => {
  const { app, lists, asked, state } = setUp({ lists: [{ id: 1, name: "Before" }] });
  assert.deepEqual([names(lists), lists.isRead], [["Before"], false]);
  state("lost");
  assert.equal(asked.length, 0);
  state("live");
  asked[0].resolve({ items: [list(1, "Now", { users: 3 })] });
  await settled();
  assert.deepEqual(app.session.lists, [{ id: 1, name: "Now" }]);
  assert.equal(listsOf(app), lists, "there is one store");
});

test("lists of who signed out meanwhile are not those of who signed in", async () => {
  const { app, lists, asked } = setUp();
  const read = lists.read();
  app.client = { connection: { on: () => {} } };
  app.session = { user: "bo", key: "other" };
  asked[0].resolve({ items: [list(1, "Ann’s")] });
  await read;
  assert.equal(app.session.lists, undefined);
  assert.deepEqual(listsOf(app).items, []);
});

test("for a topic only lists with topics are asked", async () => {
  const { lists, asked } = setUp();
  const read = lists.read();
  asked[0].resolve({ items: [list(1, "one", { topics: 2 }), list(2, "two"), list(3, "three", { topics: 1 })] });
  await read;
  const having = lists.having({ topic: "rust" });
  assert.deepEqual(asked.slice(1).map(({ method, input }) => [method, input.id]), [
    ["lists.members", 1],
    ["lists.members", 3],
  ]);
  asked[1].resolve({ items: [], topics: ["moss", "rust"] });
  asked[2].resolve({ items: [], topics: ["moss"] });
  assert.deepEqual(await having, [1]);
});

/** A live client that has read the list 7. */
async function openList() {
  const { server, feedline, push } = await connect();
  const list = feedline.openTimeline({ method: "lists.read", params: { id: 7 }, channel: LIST });
  await settled();
  const subscribed = async (reply) => {
    server.socket.answer("subscribe", reply);
    await settled();
  };
  const read = async (...answer) => {
    server.socket.answerCall("lists.read", page(...answer));
    await settled();
  };
  const reads = () => server.socket.sent.filter(({ rpc }) => rpc?.method === "lists.read").length;
  await subscribed(standing(3));
  await read([30, 20, 10], 3);
  return { server, feedline, list, subscribed, read, reads, push: (data, offset) => push(LIST, data, offset) };
}
const idsOf = ({ entries }) => entries.map(({ id }) => id);

test("the posts of a list are live, and a post is shown once with those who reposted it", async () => {
  const { list, push } = await openList();
  await push({ type: "post", post: post(40) }, 4);
  await push({ type: "edited", post: post(40, { text: "edited", edited_at: 41 }) }, 5);
  await push({ type: "reposted", id: 40, repost: 50, by: { id: "cy", name: "Cy" } }, 6);
  assert.deepEqual(idsOf(list), [40, 30, 20, 10]);
  assert.deepEqual([list.entries[0].post.text, list.entries[0].post.reposted_by.people], ["edited", ["cy"]]);
  await push({ type: "gone", id: 20, reason: "unlisted" }, 7);
  assert.deepEqual(idsOf(list), [40, 30, 10]);
  // Nobody in the list brings it any more, except who reposted it.
  await push({ type: "gone", id: 40, reason: "unlisted" }, 8);
  assert.deepEqual(idsOf(list), [50, 30, 10]);
  assert.equal(list.entries[0].post.repost.text, "edited");
});

test("after a lost connection a list catches up, or is read anew, and the end of its channel says why", async () => {
  const { server, feedline, list, subscribed, read, reads, push } = await openList();
  const reconnect = async (reply) => {
    feedline.connection.drop();
    await settled();
    tick(9_000);
    server.accept({ [TIMELINE]: standing(3, { recovered: true, was_recovering: true }) });
    await settled();
    await subscribed(reply);
  };
  const publications = [{ offset: 4, data: { type: "post", post: post(40) } }];
  await reconnect(standing(3, { recovered: true, was_recovering: true, publications }));
  const { recover, offset, epoch } = server.socket.last("subscribe").subscribe;
  assert.deepEqual([recover, offset, epoch], [true, 3, "e"]);
  assert.deepEqual([idsOf(list), list.marks[0].kind, reads()], [[40, 30, 20, 10], "recovered", 0]);
  await reconnect(standing(9, { recovered: false, was_recovering: true }));
  await read([60, 30], 9);
  assert.deepEqual([idsOf(list), list.marks[0].kind], [[60, 30], "reloaded"]);
  server.socket.say({ push: { channel: LIST, unsubscribe: { code: 2000, reason: "no longer visible" } } });
  await settled();
  server.socket.refuseCall("lists.read", { code: 404, message: "not_found" });
  await settled();
  assert.equal(list.error.code, 404);
  await push({ type: "post", post: post(70) }, 10);
  assert.deepEqual(idsOf(list), [60, 30], "it has ended");
});
