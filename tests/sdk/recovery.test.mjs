// Lost connections and killed servers: clients recover all missed publications.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { Redis } from "../support/server.mjs";
import { someone, withServer } from "../support/setup.mjs";

const numbers = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
const dataOf = (record) => record.published.all.map(({ data }) => data);
const latest = (record, name) => record.all.filter((event) => event.name === name).at(-1);

const ascending = (ids) => [...ids].sort((a, b) => a - b);

/**
 * The ids of the posts that a client received. Jobs run concurrently, so posts may arrive in any order; their offsets
 * must be consecutive.
 */
function postsOf(client) {
  const offsets = client.published.all.map(({ offset }) => offset);
  assert.deepEqual(offsets, numbers(offsets[0], offsets[0] + offsets.length - 1), "offsets without a gap");
  return ascending(client.published.all.flatMap(({ data }) => (data.type === "post" ? [data.post.id] : [])));
}

/** Publishes numbers to a channel. */
async function publish(server, channel, values) {
  for (const n of values) await server.publish(channel, n);
}

/** Waits until a client has been connected `times` times. */
function connectedTimes(client, times) {
  const count = () => client.connection.all.filter((event) => event.name === "connected").length;
  return client.connection.find(() => count() >= times, `connection ${times}`);
}

describe("a connection that was lost", () => {
  const at = withServer();

  test("recovers a channel's publications, in order, nothing twice", async () => {
    const client = await at.connected(someone("ann"));
    const chat = await client.subscribed("chat:lost");
    await publish(at.server, "chat:lost", numbers(1, 3));
    await chat.published.first(3);
    client.network.cut();
    await publish(at.server, "chat:lost", numbers(4, 9));
    client.network.mend();
    await chat.published.first(9);
    await publish(at.server, "chat:lost", [10]);
    await chat.published.first(10);
    assert.deepEqual(dataOf(chat), numbers(1, 10));
    const again = latest(chat.state, "subscribed");
    assert.deepEqual([again.wasRecovering, again.recovered], [true, true]);
  });

  test("recovers nothing where nothing was missed, and says so", async () => {
    const client = await at.connected(someone("ann"));
    const chat = await client.subscribed("chat:calm");
    await publish(at.server, "chat:calm", [1]);
    await chat.published.first(1);
    client.network.cut();
    client.network.mend();
    await chat.state.find(() => chat.state.all.filter(({ name }) => name === "subscribed").length === 2);
    assert.deepEqual(latest(chat.state, "subscribed").recovered, true);
    assert.deepEqual(dataOf(chat), [1]);
  });

  test("learns when too much was missed", async () => {
    const client = await at.connected(someone("ann"));
    const chat = await client.subscribed("chat:long");
    await publish(at.server, "chat:long", [1]);
    await chat.published.first(1);
    client.network.cut();
    // The log keeps 100 entries, plus those that approximate trimming leaves.
    await publish(at.server, "chat:long", numbers(2, 402));
    client.network.mend();
    await chat.state.find((event) => event.name === "subscribed" && event.wasRecovering);
    assert.equal(latest(chat.state, "subscribed").recovered, false);
    await publish(at.server, "chat:long", [403]);
    await chat.published.first(2);
    assert.deepEqual(dataOf(chat), [1, 403]);
  });

  test("recovers the timeline, posts and deletions alike", async () => {
    const [ann, bo] = [someone("ann"), someone("bo")];
    await at.server.meet(ann, bo);
    await at.server.follow(ann, bo);
    const client = await at.connected(ann);
    const first = await at.server.post(bo, "seen");
    await client.published.first(1);
    client.network.cut();
    const ids = [];
    for (const n of numbers(1, 5)) ids.push((await at.server.post(bo, `missed ${n}`)).id);
    await at.server.done(bo, "DELETE", `/posts/${first.id}`);
    client.network.mend();
    await client.published.first(7);
    assert.deepEqual(postsOf(client), [first.id, ...ids]);
    const gone = client.published.all.filter(({ data }) => data.type === "gone");
    assert.deepEqual(gone.map(({ data }) => data.id), [first.id]);
    const isTimeline = ({ name, channel }) => name === "subscribed" && channel === `timeline:${ann}`;
    const again = client.serverSide.all.findLast(isTimeline);
    assert.deepEqual([again.wasRecovering, again.recovered], [true, true]);
  });

  test("recovers again and again", async () => {
    const client = await at.connected(someone("ann"));
    const chat = await client.subscribed("chat:flaky");
    for (const round of numbers(1, 10)) {
      client.network.cut();
      const sending = publish(at.server, "chat:flaky", numbers(round * 10 - 9, round * 10 - 5));
      client.network.mend();
      await sending;
      await publish(at.server, "chat:flaky", numbers(round * 10 - 4, round * 10));
      await chat.published.first(round * 10);
    }
    assert.deepEqual(dataOf(chat), numbers(1, 100));
  });
});

describe("a server that was killed, on Redis", () => {
  let redis;
  before(async () => {
    redis = await Redis.start();
  });
  // The server of this suite must stop before its Redis. Hooks run in the order of registration, and `withServer`
  // registers first.
  const at = withServer(() => ({ FEEDLINE__BROKER__URL: redis.url }));
  after(() => redis?.stop());

  test("comes back, and its clients recover what they missed", async () => {
    const [ann, bo] = [someone("ann"), someone("bo")];
    await at.server.meet(ann, bo);
    await at.server.follow(ann, bo);
    const client = await at.connected(ann);
    const chat = await client.subscribed("chat:killed");
    await publish(at.server, "chat:killed", numbers(1, 3));
    await chat.published.first(3);
    const seen = await at.server.post(bo, "seen");
    await client.published.first(1);
    client.network.cut();
    await at.server.kill();
    await at.server.restart();
    await publish(at.server, "chat:killed", numbers(4, 6));
    const missed = await at.server.post(bo, "missed");
    client.network.mend();
    await chat.published.first(6);
    await client.published.first(2);
    assert.deepEqual(dataOf(chat), numbers(1, 6));
    assert.equal(latest(chat.state, "subscribed").recovered, true);
    assert.deepEqual(postsOf(client), [seen.id, missed.id]);
  });

  test("loses no post whose fan-out it did not finish", async () => {
    const [ann, bo] = [someone("ann"), someone("bo")];
    await at.server.meet(ann, bo);
    await at.server.follow(ann, bo);
    const client = await at.connected(ann);
    const ids = [];
    for (const n of numbers(1, 5)) {
      ids.push((await at.server.post(bo, `accepted ${n}`)).id);
      // The kill follows the response immediately.
      await at.server.kill();
      await at.server.restart();
    }
    const arrived = () => new Set(client.published.all.map(({ data }) => data.post?.id));
    await client.published.find(() => ids.every((id) => arrived().has(id)), "all accepted posts");
    assert.deepEqual(postsOf(client), ids);
  });
});

describe("a server that was killed, with its live state in memory", () => {
  const at = withServer();

  test("says that it cannot recover, and the page is complete", async () => {
    const [ann, bo] = [someone("ann"), someone("bo")];
    await at.server.meet(ann, bo);
    await at.server.follow(ann, bo);
    const client = await at.connected(ann);
    const chat = await client.subscribed("chat:killed");
    await publish(at.server, "chat:killed", [1]);
    await chat.published.first(1);
    const before = await at.server.post(bo, "before");
    await client.published.first(1);
    client.network.cut();
    await at.server.kill();
    await at.server.restart();
    const missed = await at.server.post(bo, "missed");
    client.network.mend();
    await connectedTimes(client, 2);
    const isTimeline = ({ name, channel }) => name === "subscribed" && channel === `timeline:${ann}`;
    const sub = client.serverSide.all.findLast(isTimeline);
    assert.deepEqual([sub.wasRecovering, sub.recovered], [true, false]);
    const page = (await client.sdk.rpc("timeline.read", {})).data;
    assert.deepEqual(page.items.map(({ id }) => id), [missed.id, before.id]);
    await chat.sub.ready(5_000);
    await publish(at.server, "chat:killed", [2]);
    await chat.published.first(2);
    assert.deepEqual(dataOf(chat), [1, 2]);
    assert.equal(latest(chat.state, "subscribed").recovered, false);
  });
});
