// An application's own channels: live publications, permissions, presence, history.

import assert from "node:assert/strict";
import { test } from "node:test";

import { refusal } from "../support/client.mjs";
import { someone, withServer } from "../support/setup.mjs";

const at = withServer();

test("what a backend publishes reaches subscribers, in order", async () => {
  const client = await at.connected(someone("ann"));
  const { published } = await client.subscribed("quiet:news");
  for (let n = 1; n <= 20; n += 1) await at.server.publish("quiet:news", { n, text: "line\nbreak" });
  const got = await published.first(20);
  assert.deepEqual(got.map(({ data }) => data.n), Array.from({ length: 20 }, (_, i) => i + 1));
  assert.equal(got[0].data.text, "line\nbreak");
});

test("a broadcast reaches every channel it names", async () => {
  const client = await at.connected(someone("ann"));
  const one = await client.subscribed("quiet:one");
  const two = await client.subscribed("chat:two");
  const { body } = await at.server.backend("broadcast", { channels: ["quiet:one", "chat:two"], data: "hello" });
  assert.equal(body.result.responses.length, 2);
  assert.equal((await one.published.first(1))[0].data, "hello");
  assert.equal((await two.published.first(1))[0].data, "hello");
});

test("the server API wants its key, and says what is wrong as the protocol does", async () => {
  assert.equal((await at.server.backend("publish", { channel: "chat:a", data: 1 }, "not the key")).status, 401);
  const unknown = await at.server.backend("publish", { channel: "nowhere:a", data: 1 });
  assert.equal(unknown.status, 200);
  assert.equal(unknown.body.error.code, 102);
  assert.equal((await at.server.backend("publish", { data: 1 })).body.error.code, 107);
});

test("a log has contiguous offsets and one epoch", async () => {
  const first = await at.server.publish("chat:offsets", 1);
  const second = await at.server.publish("chat:offsets", 2);
  assert.equal(second.offset, first.offset + 1);
  assert.equal(second.epoch, first.epoch);
});

test("subscribers publish to each other, and learn who it was", async () => {
  const [ann, bo] = [someone("ann"), someone("bo")];
  const a = await (await at.connected(ann)).subscribed("chat:room");
  const b = await (await at.connected(bo)).subscribed("chat:room");
  await b.sub.publish({ text: "hello" });
  const [got] = await a.published.first(1);
  assert.deepEqual(got.data, { text: "hello" });
  assert.equal(got.info.user, bo);
});

test("publishing is refused with 103 to those who may not", async () => {
  const client = await at.connected(someone("ann"));
  assert.equal((await refusal(client.sdk.publish("chat:not-subscribed", 1))).code, 103);
  const { sub } = await client.subscribed("quiet:read-only");
  assert.equal((await refusal(sub.publish(1))).code, 103);
  assert.equal((await refusal(client.sdk.publish("nowhere:a", 1))).code, 102);
});

test("subscribing is refused with 102 where there is nothing, and 103 where one may not", async () => {
  const client = await at.connected(someone("ann"));
  const codes = {
    "nowhere:a": 102, "closed:a": 103, "timeline:somebody-else": 103, "notifications:somebody-else": 103,
  };
  for (const [name, code] of Object.entries(codes)) {
    const { sub, state } = client.channel(name);
    sub.subscribe();
    assert.equal((await state.find((event) => event.name === "unsubscribed")).code, code, name);
  }
});

test("presence lists who is there", async () => {
  const [ann, bo] = [someone("ann"), someone("bo")];
  const a = await (await at.connected(ann)).subscribed("chat:presence");
  const second = await at.connected(bo);
  await second.subscribed("chat:presence");
  const { clients } = await a.sub.presence();
  assert.deepEqual(Object.values(clients).map(({ user }) => user).sort(), [ann, bo].sort());
  const stats = await a.sub.presenceStats();
  assert.deepEqual([stats.numClients, stats.numUsers], [2, 2]);
});

test("subscribers hear who comes and who goes", async () => {
  const [ann, bo] = [someone("ann"), someone("bo")];
  const a = await (await at.connected(ann)).subscribed("chat:doors");
  const other = await at.connected(bo);
  const b = await other.subscribed("chat:doors");
  await a.joined.find(({ info }) => info.user === bo, "bo's join");
  b.sub.unsubscribe();
  await a.left.find(({ info }) => info.user === bo, "bo's leave");
  b.sub.subscribe();
  await b.sub.ready(5_000);
  other.close();
  const left = () => a.left.all.filter(({ info }) => info.user === bo).length;
  await a.left.find(() => left() === 2, "bo's second leave");
});

test("history returns what was said, from either end", async () => {
  const client = await at.connected(someone("ann"));
  for (let n = 1; n <= 5; n += 1) await at.server.publish("chat:history", n);
  const { sub } = await client.subscribed("chat:history");
  const entries = async (options) => (await sub.history(options)).publications.map(({ data }) => data);
  assert.deepEqual(await entries({ limit: 100 }), [1, 2, 3, 4, 5]);
  assert.deepEqual(await entries({ limit: 2, reverse: true }), [5, 4]);
  const top = await sub.history({ limit: 0 });
  assert.deepEqual([top.publications.length, top.offset], [0, 5]);
  assert.deepEqual(await entries({ limit: 100, since: { offset: 3, epoch: top.epoch } }), [4, 5]);
});

test("what a namespace does not have is error 108", async () => {
  const client = await at.connected(someone("ann"));
  const { sub } = await client.subscribed("quiet:plain");
  assert.equal((await refusal(sub.presence())).code, 108);
  assert.equal((await refusal(sub.presenceStats())).code, 108);
  assert.equal((await refusal(sub.history({ limit: 1 }))).code, 108);
});

test("after unsubscribing nothing arrives any more", async () => {
  const client = await at.connected(someone("ann"));
  const left = await client.subscribed("chat:left");
  const kept = await client.subscribed("chat:kept");
  left.sub.unsubscribe();
  await client.network.wire.find((message) => message.in?.unsubscribe, "the answer to unsubscribe");
  await at.server.publish("chat:left", 1);
  await at.server.publish("chat:kept", 2);
  await kept.published.first(1);
  const pushes = client.network.wire.all.filter((message) => message.in?.push?.pub);
  const pushed = pushes.map((message) => message.in.push.channel);
  assert.deepEqual(pushed, ["chat:kept"]);
});
