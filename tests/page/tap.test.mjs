// The frames that the drawer shows: the tap records them between connection and transport.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Connection } from "../../web/feedline/connection.js";
import { Tap } from "../../web/tap.js";
import { scripted, settled, startTime, stopTime, tick } from "./scripted.mjs";

const CHANNEL = "timeline:ann";

beforeEach(stopTime);
afterEach(startTime);

function setUp() {
  const server = scripted();
  const tap = new Tap();
  const transport = tap.transport(server.transport);
  const connection = new Connection({ url: "ws://test/", token: "secret", transport });
  tap.watch(connection);
  connection.subscribe(CHANNEL, {}, { byServer: true });
  connection.open();
  return { server, tap, connection };
}

const joined = (offset, more = {}) => ({ [CHANNEL]: { recoverable: true, offset, epoch: "e", ...more } });
const post = (createdAt) => ({ type: "post", post: { created_at: createdAt } });

test("the latest frames are kept, with positions and latencies, and no token", () => {
  const { server, tap } = setUp();
  server.accept(joined(0));
  server.socket.say(server.push(CHANNEL, post(Date.now() - 18), 1));
  server.socket.say(server.push(CHANNEL, post(Date.now() - 86_400_000), 2));
  assert.deepEqual(tap.latencies.map(({ ms }) => ms), [18], "an old post that a follow adds is not slow");
  assert.deepEqual(tap.positions.get(CHANNEL), { offset: 2, epoch: "e" });
  assert.ok(!JSON.stringify(tap.entries).includes("secret"));
  for (let offset = 3; offset <= 502; offset += 1) server.socket.say(server.push(CHANNEL, "p", offset));
  assert.equal(tap.entries.length, 200);
  assert.equal(tap.entries.at(-1).offset, 502);
});

test("a reply has the method and the time of its command, a recovery its first offset", async () => {
  const { server, tap, connection } = setUp();
  server.accept(joined(5));
  const answer = connection.rpc("posts.get", { id: 1 });
  await settled();
  tick(7);
  server.socket.answerCall("posts.get", { id: 1 });
  await answer;
  const { kind, method, ms, text } = tap.entries.at(-1);
  assert.deepEqual([kind, method, ms, text], ["reply", "posts.get", 7, '{"id":1}']);
  connection.drop();
  tick(500);
  server.accept(joined(7, { was_recovering: true, recovered: true, publications: [{ offset: 6 }, { offset: 7 }] }));
  const note = tap.entries.find((entry) => entry.kind === "recovered");
  assert.equal(note.text, "from 5: 2 publications, 0 lost");
  assert.equal(tap.entries.at(-1).kind, "live");
});

test("a channel that is left has no position", async () => {
  const { server, tap, connection } = setUp();
  server.accept();
  const leave = connection.subscribe("post:1", {});
  await settled();
  server.socket.answer("subscribe", { recoverable: true, offset: 3, epoch: "e" });
  assert.equal(tap.positions.get("post:1").offset, 3);
  leave();
  await settled();
  assert.equal(tap.positions.has("post:1"), false);
});
