// The page's protocol client against a socket and a clock that the test moves.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Positions } from "../../web/positions.js";
import { Connection, backoff, isTerminal } from "../../web/socket.js";

const CHANNEL = "timeline:ann";

/** A connection with everything around it in the test's hands. */
function setUp() {
  const sockets = [];
  const timers = new Map();
  let lastTimer = 0;
  class Socket {
    sent = [];
    closed = false;
    constructor() {
      sockets.push(this);
    }
    send(frame) {
      this.sent.push(JSON.parse(frame));
    }
    close() {
      this.closed = true;
    }
    receive(...messages) {
      this.onmessage({ data: messages.map((message) => JSON.stringify(message)).join("\n") });
    }
  }
  const env = {
    WebSocket: Socket,
    setTimeout: (run, ms) => timers.set(++lastTimer, { run, ms }) && lastTimer,
    clearTimeout: (timer) => timers.delete(timer),
    random: () => 0.5,
  };
  const log = [];
  const on = {
    state: ({ name }) => log.push(name),
    subscribed: (_, sub) => log.push(sub),
    publication: (_, { data }) => log.push(data),
  };
  const connection = new Connection({ url: "ws://test", token: () => "token", on, env });
  const test = {
    connection,
    log,
    timers,
    sockets,
    get socket() {
      return sockets.at(-1);
    },
    /** Opens the newest socket and answers its connect with these subscriptions. */
    accept(sub = { recoverable: true, offset: 5, epoch: "e" }, ...more) {
      this.socket.onopen();
      const { id } = this.socket.sent.at(-1);
      this.socket.receive({ id, connect: { client: "c", ping: 25, pong: true, subs: { [CHANNEL]: sub } } }, ...more);
    },
    publication: (offset) => ({ push: { channel: CHANNEL, pub: { data: `p${offset}`, offset } } }),
    /** Lets the timer that fires after `ms` fire. */
    pass(ms) {
      const [timer, { run }] = [...timers].find(([, { ms: after }]) => after === ms);
      timers.delete(timer);
      run();
    },
  };
  return test;
}

test("pushes in the frame of the connect's reply come after it", () => {
  const at = setUp();
  at.connection.open();
  at.accept(undefined, at.publication(6), at.publication(7));
  assert.deepEqual(at.log, ["connecting", "online", { wasRecovering: false, recovered: false, missed: 0 }, "p6", "p7"]);
});

test("a reconnect asks for what came after the last publication, and takes each once", () => {
  const at = setUp();
  at.connection.open();
  at.accept(undefined, at.publication(6));
  at.connection.drop();
  at.pass(250);
  const publications = [7, 8].map((offset) => ({ data: `p${offset}`, offset }));
  at.accept({ recoverable: true, recovered: true, was_recovering: true, offset: 6, epoch: "e", publications }, at.publication(8), at.publication(9));
  assert.deepEqual(at.socket.sent[0].connect.subs, { [CHANNEL]: { recover: true, offset: 6, epoch: "e" } });
  const since = at.log.lastIndexOf("online") + 1;
  assert.deepEqual(at.log.slice(since), [{ wasRecovering: true, recovered: true, missed: 2 }, "p7", "p8", "p9"]);
});

test("where recovery failed the position is the new log's", () => {
  const at = setUp();
  at.connection.open();
  at.accept();
  at.connection.drop();
  at.pass(250);
  at.accept({ recoverable: true, was_recovering: true, offset: 2, epoch: "f" }, at.publication(3));
  assert.equal(at.log.at(-1), "p3");
  at.connection.drop();
  at.pass(250);
  at.socket.onopen();
  assert.deepEqual(at.socket.sent[0].connect.subs[CHANNEL], { recover: true, offset: 3, epoch: "f" });
});

test("a ping is answered, once; silence is a lost connection", () => {
  const at = setUp();
  at.connection.open();
  at.accept();
  const before = new Set(at.timers.keys());
  at.socket.receive({});
  assert.deepEqual(at.socket.sent.slice(1), [{}]);
  assert.equal(at.timers.size, before.size);
  assert.ok([...at.timers.keys()].some((timer) => !before.has(timer)), "the wait for the next ping began anew");
  at.pass(35_000);
  assert.equal(at.log.at(-1), "waiting");
  assert.ok(at.socket.closed);
});

test("close codes decide: again, or never again", () => {
  for (const [code, state] of [[1006, "waiting"], [3001, "waiting"], [3500, "ended"], [3999, "ended"], [4000, "waiting"], [4500, "ended"], [5000, "waiting"]]) {
    const at = setUp();
    at.connection.open();
    at.socket.onclose({ code, reason: "" });
    assert.equal(at.log.at(-1), state, `code ${code}`);
    assert.equal(isTerminal(code), state === "ended");
    assert.equal(at.timers.size, state === "ended" ? 0 : 1, "timers left");
  }
});

test("an error to the connect is tried again if it is temporary, else it ends", () => {
  for (const [temporary, state] of [[true, "waiting"], [false, "ended"]]) {
    const at = setUp();
    at.connection.open();
    at.socket.onopen();
    at.socket.receive({ id: 1, error: { code: temporary ? 100 : 109, message: "no", temporary } });
    assert.equal(at.log.at(-1), state);
  }
});

test("rpc answers, refuses, and does not outlive its connection", async () => {
  const at = setUp();
  await assert.rejects(at.connection.rpc("a", {}), { code: 0 });
  at.connection.open();
  at.accept();
  const answers = ["a", "b", "c"].map((method) => at.connection.rpc(method, {}));
  const [a, b] = at.socket.sent.slice(-3).map(({ id }) => id);
  at.socket.receive({ id: b, error: { code: 404, message: "no such thing", field: "id" } }, { id: a, rpc: { data: 1 } });
  at.connection.drop();
  assert.equal(await answers[0], 1);
  await assert.rejects(answers[1], { code: 404, field: "id" });
  await assert.rejects(answers[2], { code: 0, temporary: true });
});

test("offline means offline: nothing is tried until it is asked for, and then it recovers", () => {
  const at = setUp();
  at.connection.open();
  at.accept();
  at.connection.close();
  at.connection.nudge();
  assert.equal(at.log.at(-1), "offline");
  assert.equal(at.timers.size, 0);
  assert.equal(at.sockets.length, 1);
  at.sockets[0].onmessage({ data: "{}" });
  at.connection.open();
  at.socket.onopen();
  assert.equal(at.socket.sent[0].connect.subs[CHANNEL].recover, true);
});

test("a socket that was let go has nothing more to say", () => {
  const at = setUp();
  at.connection.open();
  at.accept();
  at.connection.drop();
  at.pass(250);
  at.accept();
  const said = at.log.length;
  at.sockets[0].receive(at.publication(6));
  at.sockets[0].onclose({ code: 3500, reason: "" });
  assert.equal(at.log.length, said);
});

test("what is not the protocol ends the connection, not the page", () => {
  const at = setUp();
  at.connection.open();
  at.accept();
  at.socket.onmessage({ data: "<html>" });
  assert.equal(at.log.at(-1), "waiting");
});

test("the wait grows to a ceiling and is spread over all of it", () => {
  assert.equal(backoff(0, () => 1), 500);
  assert.equal(backoff(3, () => 1), 4_000);
  assert.equal(backoff(100, () => 1), 20_000);
  assert.equal(backoff(3, () => 0), 0);
});

test("a channel without a log is not asked to recover", () => {
  const positions = new Positions();
  positions.start("quiet:a", {});
  assert.equal(positions.requests(), undefined);
  assert.equal(positions.advance("quiet:a", {}), true);
  positions.start("chat:new", { recoverable: true, epoch: "e" });
  assert.deepEqual(positions.requests(), { "chat:new": { recover: true, epoch: "e" } });
  positions.start("chat:new", {});
  assert.equal(positions.requests(), undefined);
});
