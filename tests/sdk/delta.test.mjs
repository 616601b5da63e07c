// Fossil deltas with the official SDK, in both encodings: publications are patches of the ones before them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { parsed } from "../support/client.mjs";
import { someone, withServer } from "../support/setup.mjs";

const at = withServer();
const numbers = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

/** A scoreboard of some 600 bytes, of which each step changes a few. */
const board = (step) => ({
  title: "Scores — é 😀 \"quoted\"",
  teams: numbers(1, 12).map((team) => ({ team, name: `team number ${team}`, points: team === step % 12 ? step : 0 })),
});

/** Checks how many publications arrived whole and as patches, if this version of the SDK counts them. */
function assertCounts(sub, whole, patches) {
  const stats = sub.deltaStats?.();
  if (!stats) return;
  assert.deepEqual([stats.numFullPayloads, stats.numDeltaPayloads], [whole, patches]);
  assert.ok(patches === 0 || stats.compressionRatio > 0.5, `${JSON.stringify(stats)}`);
}

const publish = (channel, data) => at.server.publish(channel, data);
const ENCODINGS = [["JSON", {}, (data) => data], ["Protobuf", { protocol: "protobuf" }, parsed]];

for (const [encoding, options, decode] of ENCODINGS) {
  test(`live publications are patches, ${encoding}`, async () => {
    const channel = `delta:live-${encoding}`;
    const client = await at.connected(someone("ann"), options);
    const { sub, published, state } = await client.subscribed(channel, { delta: "fossil" });
    const plain = await (await at.connected(someone("bo"), options)).subscribed(channel);
    for (const step of numbers(1, 20)) await publish(channel, board(step));
    const expected = numbers(1, 20).map(board);
    for (const record of [published, plain.published]) {
      const got = await record.first(20);
      assert.deepEqual(got.map(({ data }) => decode(data)), expected);
      assert.deepEqual(got.map(({ offset }) => offset), numbers(1, 20));
    }
    assert.ok(state.all.some((event) => event.name === "subscribed"));
    assertCounts(sub, 1, 19);
  });

  test(`recovered publications are a chain, and live ones continue it, ${encoding}`, async () => {
    const channel = `delta:lost-${encoding}`;
    const client = await at.connected(someone("ann"), options);
    const { sub, published, state } = await client.subscribed(channel, { delta: "fossil" });
    for (const step of numbers(1, 3)) await publish(channel, board(step));
    await published.first(3);
    client.network.cut();
    for (const step of numbers(4, 9)) await publish(channel, board(step));
    client.network.mend();
    await published.first(9);
    for (const step of numbers(10, 12)) await publish(channel, board(step));
    const got = await published.first(12);
    assert.deepEqual(got.map(({ data }) => decode(data)), numbers(1, 12).map(board));
    const again = state.all.filter((event) => event.name === "subscribed").at(-1);
    assert.deepEqual([again.wasRecovering, again.recovered], [true, true]);
    // Whole ones: the first, the first of the recovered ones, the first behind them.
    assertCounts(sub, 3, 9);
  });

  test(`small and changing data of every kind arrive whole, ${encoding}`, async () => {
    const channel = `delta:kinds-${encoding}`;
    const client = await at.connected(someone("ann"), options);
    const { published } = await client.subscribed(channel, { delta: "fossil" });
    const kinds = [1, "text", null, true, [], {}, board(1), "ä".repeat(300), "ä".repeat(299) + "ö", board(2), -1.5];
    for (const kind of kinds) await publish(channel, kind);
    const got = await published.first(kinds.length);
    assert.deepEqual(got.map(({ data }) => decode(data)), kinds);
  });
}

test("deltas are only where the namespace has them", async () => {
  const client = await at.connected(someone("ann"));
  const { sub, published } = await client.subscribed("chat:whole", { delta: "fossil" });
  for (const step of [1, 2]) await publish("chat:whole", board(step));
  assert.deepEqual((await published.first(2)).map(({ data }) => data), [board(1), board(2)]);
  assertCounts(sub, 0, 0);
});
