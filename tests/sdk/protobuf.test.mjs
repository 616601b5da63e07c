// The official SDK in its Protobuf mode. Application data are bytes there; the server wants JSON in them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { bytes, parsed, Recorder, refusal } from "../support/client.mjs";
import { losesNothing } from "../support/recovery.mjs";
import { someone, withServer } from "../support/setup.mjs";

const at = withServer();
const protobuf = { protocol: "protobuf" };
const seconds = (offset) => Math.floor(Date.now() / 1000) + offset;
const numbers = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
const dataOf = (events) => events.map(({ data }) => parsed(data));

test("a client connects, and all frames are binary", async () => {
  const ann = someone("ann");
  const client = await at.connected(ann, protobuf);
  const [connected] = client.connection.all.filter((event) => event.name === "connected");
  assert.match(connected.client, /^[0-9a-f-]{36}$/);
  const subs = client.serverSide.all.filter((event) => event.name === "subscribed");
  assert.deepEqual(subs.map(({ channel }) => channel).sort(), [`notifications:${ann}`, `timeline:${ann}`]);
  assert.ok(client.network.binary.all.length >= 2);
  assert.deepEqual(client.network.wire.all, [], "text");
});

test("publications of a backend arrive live, beside a client that uses JSON", async () => {
  const clients = [await at.connected(someone("ann"), protobuf), await at.connected(someone("bo"))];
  const records = [];
  for (const client of clients) records.push(await client.subscribed("quiet:both"));
  for (const n of numbers(1, 20)) await at.server.publish("quiet:both", { n, text: "line\nbreak" });
  for (const [index, { published }] of records.entries()) {
    const got = await published.first(20);
    const data = index === 0 ? dataOf(got) : got.map((event) => event.data);
    assert.deepEqual(data, numbers(1, 20).map((n) => ({ n, text: "line\nbreak" })));
  }
});

test("clients of both encodings publish to each other", async () => {
  const [ann, bo] = [someone("ann"), someone("bo")];
  const a = await (await at.connected(ann, protobuf)).subscribed("chat:mixed");
  const b = await (await at.connected(bo)).subscribed("chat:mixed");
  await a.sub.publish(bytes({ text: "from Protobuf" }));
  await b.sub.publish({ text: "from JSON" });
  const [first, second] = await a.published.first(2);
  assert.deepEqual([parsed(first.data), first.info.user, first.offset], [{ text: "from Protobuf" }, ann, 1]);
  assert.deepEqual([parsed(second.data), second.info.user, second.offset], [{ text: "from JSON" }, bo, 2]);
  assert.deepEqual((await b.published.first(1))[0].data, { text: "from Protobuf" });
});

test("data that is not JSON is refused with 107, and the connection stays", async () => {
  const client = await at.connected(someone("ann"), protobuf);
  const { sub } = await client.subscribed("chat:raw");
  assert.equal((await refusal(sub.publish(new Uint8Array([1, 2, 3])))).code, 107);
  assert.equal((await refusal(client.sdk.rpc("users.get", new TextEncoder().encode("{")))).code, 107);
  await sub.publish(bytes(null));
});

test("lost publications are recovered, in order, nothing twice", async () => {
  await losesNothing(at, protobuf, "chat:lost-bytes", parsed);
});

test("a lost timeline is recovered", async () => {
  const [ann, bo] = [someone("ann"), someone("bo")];
  await at.server.meet(ann, bo);
  await at.server.follow(ann, bo);
  const client = await at.connected(ann, protobuf);
  const seen = await at.server.post(bo, "seen");
  await client.published.first(1);
  client.network.cut();
  const missed = await at.server.post(bo, "missed");
  client.network.mend();
  const posts = await client.published.first(2);
  assert.deepEqual(dataOf(posts).map(({ post }) => post.id), [seen.id, missed.id]);
});

test("presence, joins and leaves", async () => {
  const [ann, bo] = [someone("ann"), someone("bo")];
  const a = await (await at.connected(ann, protobuf)).subscribed("chat:here");
  const other = await at.connected(bo, protobuf);
  await other.subscribed("chat:here");
  await a.joined.find(({ info }) => info.user === bo, "bo's join");
  const { clients } = await a.sub.presence();
  assert.deepEqual(Object.values(clients).map(({ user }) => user).sort(), [ann, bo].sort());
  const stats = await a.sub.presenceStats();
  assert.deepEqual([stats.numClients, stats.numUsers], [2, 2]);
  other.close();
  await a.left.find(({ info }) => info.user === bo, "bo's leave");
});

test("history, from either end", async () => {
  const client = await at.connected(someone("ann"), protobuf);
  for (const n of numbers(1, 5)) await at.server.publish("chat:past", n);
  const { sub } = await client.subscribed("chat:past");
  const entries = async (options) => dataOf((await sub.history(options)).publications);
  assert.deepEqual(await entries({ limit: 100 }), numbers(1, 5));
  assert.deepEqual(await entries({ limit: 2, reverse: true }), [5, 4]);
  const top = await sub.history({ limit: 0 });
  assert.deepEqual([top.publications.length, top.offset], [0, 5]);
  assert.deepEqual(await entries({ limit: 100, since: { offset: 3, epoch: top.epoch } }), [4, 5]);
});

test("operations take and return JSON as bytes", async () => {
  const ann = someone("ann");
  await at.server.meet(ann);
  const client = await at.connected(ann, protobuf);
  const created = parsed((await client.sdk.rpc("posts.create", bytes({ text: "from bytes" }))).data);
  const { items } = parsed((await client.sdk.rpc("timeline.read", bytes({}))).data);
  assert.deepEqual(items.map(({ id }) => id), [created.id]);
  assert.equal((await refusal(client.sdk.rpc("no.such", bytes({})))).code, 108);
});

test("an expiring token is refreshed, and the connection stays", async () => {
  const user = someone("ann");
  await at.server.meet(user);
  const asked = new Recorder();
  // The second refresh comes only if the reply to the first was understood: it has the time until the next.
  const getToken = async () => {
    asked.add("a token");
    return at.server.token(user, { exp: seconds(asked.all.length === 1 ? 2 : 3600) });
  };
  const client = await at.connected(null, { ...protobuf, token: at.server.token(user, { exp: seconds(2) }), getToken });
  await asked.first(2, "tokens");
  assert.equal(parsed((await client.sdk.rpc("users.get", bytes({ id: user }))).data).id, user);
  assert.equal(client.connection.all.filter((event) => event.name === "connecting").length, 1);
});

test("refusals have the codes of the protocol", async () => {
  const nonsense = at.client(null, { ...protobuf, token: "nonsense" });
  assert.equal((await nonsense.refused()).code, 3500);
  assert.equal((await at.client(null, protobuf).refused()).code, 3501);
  const client = await at.connected(someone("ann"), protobuf);
  for (const [name, code] of Object.entries({ "nowhere:a": 102, "closed:a": 103, "timeline:somebody-else": 103 })) {
    const { sub, state } = client.channel(name);
    sub.subscribe();
    assert.equal((await state.find((event) => event.name === "unsubscribed")).code, code, name);
  }
});

test("an expired token is error 109, and the client gets itself a new one", async () => {
  const user = someone("ann");
  const getToken = async () => at.server.token(user);
  const expired = at.server.token(user, { exp: seconds(-60) });
  const client = await at.connected(null, { ...protobuf, token: expired, getToken });
  const { error } = await client.connection.find((event) => event.name === "error");
  assert.equal(error.code, 109);
});
