// Recovery by the official SDK, whatever the transport and the encoding are.

import assert from "node:assert/strict";

import { someone } from "./setup.mjs";

const numbers = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

/** Cuts the network of a client and mends it. The client misses nothing and hears nothing twice; `got` decodes data. */
export async function losesNothing(at, options, channel, got) {
  const client = await at.connected(someone("ann"), options);
  const chat = await client.subscribed(channel);
  for (const n of numbers(1, 3)) await at.server.publish(channel, n);
  await chat.published.first(3);
  client.network.cut();
  for (const n of numbers(4, 9)) await at.server.publish(channel, n);
  client.network.mend();
  await chat.published.first(9);
  await at.server.publish(channel, 10);
  assert.deepEqual((await chat.published.first(10)).map(({ data }) => got(data)), numbers(1, 10));
  const again = chat.state.all.filter((event) => event.name === "subscribed").at(-1);
  assert.deepEqual([again.wasRecovering, again.recovered], [true, true]);
}
