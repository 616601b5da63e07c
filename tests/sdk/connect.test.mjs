// Connections: accepted and refused tokens, and the codes of refusals.

import assert from "node:assert/strict";
import { test } from "node:test";

import { someone, withServer } from "../support/setup.mjs";

const at = withServer();
const seconds = (offset) => Math.floor(Date.now() / 1000) + offset;

test("a user with a token connects", async () => {
  const client = await at.connected(someone("ann"));
  const [connected] = client.connection.all.filter((event) => event.name === "connected");
  assert.match(connected.client, /^[0-9a-f-]{36}$/);
  assert.equal(connected.transport, "websocket");
});

test("an account's own token connects", async () => {
  const user = someone("bo");
  const account = { user, password: "correct horse", name: "Bo" };
  const made = await fetch(`${at.server.origin}/api/v1/accounts`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(account),
  });
  assert.equal(made.status, 201);
  const { token } = await made.json();
  const client = await at.connected(null, { token });
  assert.equal((await client.sdk.rpc("users.get", { id: user })).data.name, "Bo");
});

test("a token that is not ours ends in 3500 and no second attempt", async () => {
  const forged = at.server.token(someone("eve"), {}, "another secret, also of some length");
  const [head, body] = at.server.token(someone("eve")).split(".");
  const none = `${Buffer.from('{"alg":"none"}').toString("base64url")}.${body}.`;
  for (const token of [forged, none, `${head}.${body}.`, "nonsense"]) {
    const client = at.client(null, { token });
    assert.equal((await client.refused()).code, 3500, token);
    assert.equal(client.connection.all.filter((event) => event.name === "connecting").length, 1);
  }
});

test("no token at all ends in 3501", async () => {
  assert.equal((await at.client(null).refused()).code, 3501);
});

test("an expired token is error 109, and the client gets itself a new one", async () => {
  const user = someone("ann");
  let asked = 0;
  const getToken = async () => {
    asked += 1;
    return at.server.token(user);
  };
  const client = await at.connected(null, { token: at.server.token(user, { exp: seconds(-60) }), getToken });
  const error = await client.connection.find((event) => event.name === "error");
  assert.equal(error.error.code, 109);
  assert.equal(asked, 1);
});

test("a token that is about to expire is refreshed, and the connection stays", async () => {
  const user = someone("ann");
  const getToken = async () => at.server.token(user, { exp: seconds(3600) });
  const client = await at.connected(null, { token: at.server.token(user, { exp: seconds(2) }), getToken });
  const reply = await client.network.wire.find((message) => message.in?.refresh, "the answer to a refresh");
  assert.equal(reply.in.refresh.expires, true);
  assert.ok(reply.in.refresh.ttl > 3500, `ttl ${reply.in.refresh.ttl}`);
  assert.equal(client.connection.all.filter((event) => event.name === "connecting").length, 1);
});

test("a refresh with somebody else's token ends in 3500", async () => {
  const getToken = async () => at.server.token(someone("eve"), { exp: seconds(3600) });
  const client = await at.connected(null, { token: at.server.token(someone("ann"), { exp: seconds(1) }), getToken });
  const ended = await client.connection.find((event) => event.name === "disconnected");
  assert.equal(ended.code, 3500);
});

test("connect and subscribe sent in one frame are answered in order, before what is published", async () => {
  const client = at.client(someone("ann"));
  const { sub, published } = client.channel("chat:pipelined");
  sub.subscribe();
  await client.connected();
  await sub.ready(5_000);
  await at.server.publish("chat:pipelined", { n: 1 });
  await published.first(1);
  const [first] = client.network.frames.all;
  const commands = first.split("\n").map((line) => Object.keys(JSON.parse(line)).find((key) => key !== "id"));
  assert.deepEqual(commands, ["connect", "subscribe"]);
  const replies = client.network.wire.all.flatMap((message) => (message.in?.id ? [message.in.id] : []));
  assert.deepEqual(replies, [1, 2]);
});

test("clients come back after a shutdown", async () => {
  const client = await at.connected(someone("ann"));
  await at.server.shutdown();
  await client.connection.find((event) => event.name === "connecting" && event.code === 3001, "the goodbye");
  await at.server.restart();
  await client.sdk.ready(10_000);
  assert.ok(!client.connection.all.some((event) => event.name === "disconnected"));
});
