// The client's connection, with a scripted server and a fake clock.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Connection } from "../../web/feedline/connection.js";
import { backoff, isTerminal } from "../../web/feedline/errors.js";
import { scripted, settled, startTime, stopTime, tick } from "./scripted.mjs";

const CHANNEL = "timeline:ann";
const standing = (offset = 5, more = {}) => ({ recoverable: true, offset, epoch: "e", ...more });

beforeEach(stopTime);
afterEach(startTime);

/** Creates a connection, and records its events in `log`. */
function setUp(options = {}) {
  const server = scripted();
  const connection = new Connection({ url: "ws://test/", token: "secret", transport: server.transport, ...options });
  const log = [];
  connection.on("state", ({ name }) => log.push(name));
  connection.subscribe(CHANNEL, {
    subscribed: ({ wasRecovering, recovered, missed }) => log.push({ wasRecovering, recovered, missed: missed.length }),
    publication: ({ data }) => log.push(data),
    unsubscribed: ({ code }) => log.push(code),
  }, { byServer: true });
  const arrive = (...offsets) => offsets.map((offset) => server.push(CHANNEL, `p${offset}`, offset));
  return { server, connection, log, arrive };
}

test("pushes in the frame of the connect's reply come after it", () => {
  const { server, connection, log, arrive } = setUp();
  connection.open();
  server.accept({ [CHANNEL]: standing() }, ...arrive(6, 7));
  assert.deepEqual(log, ["connecting", "live", { wasRecovering: false, recovered: false, missed: 0 }, "p6", "p7"]);
});

test("a reconnect asks for what came after the last publication, and takes each once", () => {
  const { server, connection, log, arrive } = setUp();
  connection.open();
  server.accept({ [CHANNEL]: standing() }, ...arrive(6));
  connection.drop();
  tick(250);
  const publications = [7, 8].map((offset) => ({ data: `p${offset}`, offset }));
  server.accept({ [CHANNEL]: standing(6, { recovered: true, was_recovering: true, publications }) }, ...arrive(8, 9));
  assert.deepEqual(server.socket.sent[0].connect.subs, { [CHANNEL]: { recover: true, offset: 6, epoch: "e" } });
  const since = log.lastIndexOf("live") + 1;
  assert.deepEqual(log.slice(since), [{ wasRecovering: true, recovered: true, missed: 2 }, "p7", "p8", "p9"]);
});

test("where recovery failed the position is the new log's", () => {
  const { server, connection, log, arrive } = setUp();
  connection.open();
  server.accept({ [CHANNEL]: standing() });
  connection.drop();
  tick(250);
  server.accept({ [CHANNEL]: standing(2, { was_recovering: true, epoch: "f" }) }, ...arrive(3));
  assert.deepEqual(log.slice(-2), [{ wasRecovering: true, recovered: false, missed: 0 }, "p3"]);
  connection.drop();
  tick(1_000);
  server.socket.on.open();
  assert.deepEqual(server.socket.sent[0].connect.subs[CHANNEL], { recover: true, offset: 3, epoch: "f" });
});

test("a ping is answered, once; silence is a lost connection", () => {
  const { server, connection } = setUp();
  connection.open();
  server.accept();
  tick(34_000);
  server.socket.say({});
  assert.deepEqual(server.socket.sent.slice(1), [{}]);
  tick(34_999);
  assert.equal(connection.state.name, "live");
  tick(1);
  assert.equal(connection.state.name, "lost");
  assert.ok(server.socket.isClosed);
});

test("close codes decide: again, or never again", () => {
  const ends = (code) => [3500, 3999, 4500].includes(code);
  for (const code of [1006, 3001, 3499, 3500, 3999, 4000, 4500, 5000]) {
    const { server, connection } = setUp();
    connection.open();
    server.accept();
    server.socket.on.close(code, "why");
    const { name, code: received, reason } = connection.state;
    assert.deepEqual([name, received, reason], [ends(code) ? "ended" : "lost", code, "why"]);
    assert.equal(isTerminal(code), ends(code));
    tick(60_000);
    assert.equal(server.sockets.length > 1, !ends(code), `code ${code}`);
    connection.close();
  }
});

test("an error to the connect is tried again if it is temporary, else it ends", async () => {
  for (const [temporary, state] of [[true, "lost"], [false, "ended"]]) {
    const { server, connection } = setUp();
    connection.open();
    server.socket.on.open();
    server.socket.say({ id: 1, error: { code: temporary ? 100 : 109, message: "no", temporary } });
    await settled();
    assert.equal(connection.state.name, state);
    assert.equal(connection.state.signedOut, temporary ? undefined : true);
  }
});

test("calls wait for the connection, answer, refuse, and do not outlive it", async () => {
  const { server, connection } = setUp();
  const offline = connection.rpc("a");
  await assert.rejects(offline, { reason: "offline", outcome: "unsent" });
  connection.open();
  const early = connection.rpc("early");
  server.accept();
  await settled();
  const calls = ["a", "b", "c"].map((method) => connection.rpc(method));
  await settled();
  server.socket.answerCall("early", 0);
  server.socket.refuseCall("b", { code: 404, message: "no such thing", field: "id" });
  server.socket.answerCall("a", 1);
  connection.drop();
  assert.equal(await early, 0);
  assert.equal(await calls[0], 1);
  await assert.rejects(calls[1], { code: 404, field: "id", outcome: "refused", temporary: false });
  await assert.rejects(calls[2], { reason: "lost", outcome: "unknown", temporary: true });
  const unsent = connection.rpc("d");
  tick(10_000);
  await assert.rejects(unsent, { reason: "timeout", outcome: "unsent" });
});

test("a call that is not answered ends", async () => {
  const { server, connection } = setUp();
  connection.open();
  server.accept();
  const call = connection.rpc("slow", {}, { timeoutMs: 3_000 });
  tick(3_000);
  await assert.rejects(call, { reason: "timeout", outcome: "unknown" });
});

test("offline means offline: nothing is tried until it is asked for, and then it recovers", () => {
  const { server, connection } = setUp();
  connection.open();
  server.accept({ [CHANNEL]: standing() });
  connection.close();
  connection.nudge();
  tick(60_000);
  assert.deepEqual([connection.state.name, server.sockets.length], ["offline", 1]);
  connection.open();
  server.socket.on.open();
  assert.equal(server.socket.sent[0].connect.subs[CHANNEL].recover, true);
});

test("what is not the protocol loses the connection, not the page", () => {
  const { server, connection } = setUp();
  connection.open();
  server.accept();
  server.socket.on.frame("<html>");
  assert.equal(connection.state.name, "lost");
});

test("a listener that throws does not break the others", (t) => {
  const { server, connection, log } = setUp();
  const reported = t.mock.method(Promise, "reject", () => {}).mock;
  connection.subscribe("other", { publication: () => assert.fail("broken listener") }, { byServer: true });
  connection.open();
  const pushes = [server.push("other", "x", 2), server.push(CHANNEL, "y", 6)];
  server.accept({ other: standing(1), [CHANNEL]: standing() }, ...pushes);
  assert.equal(log.at(-1), "y");
  assert.deepEqual(reported.calls.map(({ arguments: [error] }) => error.message), ["broken listener"]);
});

test("waits grow to a ceiling and are spread over all of it; a connection that held begins anew", () => {
  assert.deepEqual([0, 3, 100].map((attempt) => backoff(attempt, () => 1)), [500, 4_000, 20_000]);
  assert.equal(backoff(3, () => 0), 0);
  const { server, connection } = setUp();
  connection.open();
  const wait = () => connection.state.retryAt - Date.now();
  const fail = () => (server.socket.on.close(1006, ""), wait());
  assert.equal(fail(), 250);
  tick(250);
  assert.equal(fail(), 500);
  tick(500);
  server.accept();
  assert.equal(fail(), 1_000, "a server that accepts and drops at once is not hurried");
  tick(1_000);
  server.accept();
  tick(6_000);
  assert.equal(fail(), 250);
});

test("a nudge retries at once, and asks a live connection for a sign of life", async () => {
  const { server, connection } = setUp();
  connection.open();
  server.socket.on.close(1006, "");
  connection.nudge();
  assert.equal(server.sockets.length, 2);
  server.accept();
  connection.nudge();
  await settled();
  server.socket.say({ id: server.socket.last("ping").id, error: { code: 108, message: "not available" } });
  tick(5_000);
  await settled();
  assert.equal(connection.state.name, "live");
  tick(6_000);
  connection.nudge();
  await settled();
  tick(5_000);
  await settled();
  assert.deepEqual([connection.state.name, connection.state.reason], ["lost", "no answer"]);
});

test("a token is renewed ahead of its end, and when the server says that it has expired", async () => {
  const tokens = ["second", "third", null];
  const { server, connection } = setUp({ getToken: async () => tokens.shift() });
  connection.open();
  server.socket.on.open();
  assert.equal(server.socket.last("connect").connect.token, "secret");
  server.socket.answer("connect", { ping: 25, expires: true, ttl: 10 });
  tick(9_000);
  await settled();
  assert.deepEqual(server.socket.last("refresh").refresh, { token: "second" });
  server.socket.answer("refresh", { expires: true, ttl: 100 });
  server.socket.on.close(3005, "connection expired");
  tick(1_000);
  server.socket.on.open();
  server.socket.say({ id: server.socket.last("connect").id, error: { code: 109, message: "token expired" } });
  await settled();
  tick(1_000);
  await settled();
  server.socket.on.open();
  assert.equal(server.socket.last("connect").connect.token, "third");
  server.socket.say({ id: server.socket.last("connect").id, error: { code: 109, message: "token expired" } });
  await settled();
  tick(2_000);
  await settled();
  assert.deepEqual([connection.state.name, connection.state.signedOut], ["ended", true]);
});

test("channels are shared, recover by themselves, and are left with their last listener", async () => {
  const { server, connection } = setUp();
  const log = [];
  const listener = (name) => ({
    subscribed: ({ recovered }) => log.push(`${name} ${recovered}`),
    publication: ({ data }) => log.push(`${name} ${data}`),
    unsubscribed: ({ code }) => log.push(`${name} ${code}`),
  });
  connection.open();
  server.accept();
  const leaveFirst = connection.subscribe("post:1", listener("first"));
  await settled();
  server.socket.answer("subscribe", standing(1), server.push("post:1", "a", 2));
  const leaveSecond = connection.subscribe("post:1", listener("second"));
  await settled();
  assert.deepEqual(log.splice(0), ["first false", "first a", "second false"]);
  server.socket.say({ push: { channel: "post:1", unsubscribe: { code: 2500, reason: "insufficient state" } } });
  await settled();
  const { subscribe } = server.socket.last("subscribe");
  assert.deepEqual(subscribe, { channel: "post:1", recover: true, offset: 2, epoch: "e" });
  const recovered = (offset) => standing(offset, { was_recovering: true, recovered: true });
  server.socket.answer("subscribe", recovered(2), server.push("post:1", "b", 3));
  assert.deepEqual(log.splice(0), ["first true", "second true", "first b", "second b"]);
  connection.drop();
  tick(250);
  server.accept();
  await settled();
  assert.equal(server.socket.last("subscribe").subscribe.offset, 3);
  server.socket.answer("subscribe", recovered(3));
  leaveFirst();
  await settled();
  assert.equal(server.socket.last("unsubscribe"), undefined);
  leaveSecond();
  await settled();
  assert.deepEqual(server.socket.last("unsubscribe").unsubscribe, { channel: "post:1" });
  server.socket.say(server.push("post:1", "late", 4));
  assert.deepEqual(log, ["first true", "second true"]);
});

test("a channel that is refused says so; one that is busy is asked for again", async () => {
  const { server, connection } = setUp();
  const log = [];
  connection.open();
  server.accept();
  connection.subscribe("post:1", { unsubscribed: ({ code }) => log.push(code), subscribed: () => log.push("in") });
  await settled();
  const refuse = (error) => server.socket.say({ id: server.socket.last("subscribe").id, error });
  refuse({ code: 111, message: "too many requests", temporary: true });
  await settled();
  tick(250);
  await settled();
  refuse({ code: 103, message: "permission denied" });
  await settled();
  assert.deepEqual(log, [103]);
  tick(30_000);
  assert.equal(server.socket.sent.filter(({ subscribe }) => subscribe).length, 2);
});
