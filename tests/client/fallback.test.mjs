// The fallback to an HTTP stream, where WebSockets are blocked.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { Feedline, fallback, httpStream, webSocket } from "../../web/feedline/index.js";
import { Network } from "../support/client.mjs";
import { until, withFeedline } from "../support/feedline.mjs";
import { someone } from "../support/setup.mjs";

/** A transport that a proxy blocks. */
const blocked = (url, on) => {
  queueMicrotask(() => on.close(1006, "blocked"));
  return { send() {}, close() {} };
};
const ids = ({ timeline }) => timeline.entries.map(({ id }) => id);

describe("the fallback", () => {
  const at = withFeedline();

  test("shows a live timeline, likes and own posts, and recovers", async () => {
    const [ann, bo] = [someone("ann"), someone("bo")];
    await at.server.meet(ann, bo);
    await at.server.follow(ann, bo);
    const network = new Network();
    const feedline = await at.open(ann, { transport: fallback(blocked, httpStream(network.fetch)) });
    const first = await at.server.post(bo, "live");
    await until(() => ids(feedline).length === 1);
    feedline.timeline.post({ text: "mine" });
    await until(() => feedline.timeline.entries[0].state === "stored");
    network.cut();
    await until(() => !feedline.connection.isLive);
    const missed = await at.server.post(bo, "missed");
    network.mend();
    feedline.connection.nudge();
    await until(() => feedline.timeline.entries.length === 3);
    assert.deepEqual([ids(feedline)[2], ids(feedline)[0]], [first.id, missed.id]);
  });

  test("many commands at once are answered in order", async () => {
    const ann = someone("ann");
    const feedline = await at.open(ann, { transport: httpStream() });
    const answered = [];
    const asked = Array.from({ length: 30 }, (_, n) =>
      feedline.connection.rpc("users.get", { id: ann }).then(() => answered.push(n)),
    );
    await Promise.all(asked);
    assert.deepEqual(answered, Array.from({ length: 30 }, (_, n) => n));
  });

  test("keeps to the transport that has worked, also while the server is down", async () => {
    const used = [];
    const noted = (name, transport) => (url, on) => {
      used.push(name);
      return transport(url, on);
    };
    const network = new Network();
    const transport = fallback(noted("socket", webSocket(network.WebSocket)), noted("stream", httpStream()));
    const feedline = await at.open(someone("ann"), { transport });
    network.cut();
    await until(() => !feedline.connection.isLive);
    for (let n = 0; n < 3; n += 1) {
      feedline.connection.nudge();
      await until(() => feedline.connection.state.name === "lost");
    }
    network.mend();
    feedline.connection.nudge();
    await until(() => feedline.connection.isLive);
    assert.deepEqual([...new Set(used)], ["socket"]);
  });

  test("a stream that the server closes for good ends the connection", async () => {
    const ann = someone("ann");
    const feedline = await at.open(ann, { transport: httpStream() });
    await at.server.backend("disconnect", { user: ann });
    await until(() => feedline.connection.state.name === "ended");
    assert.equal(feedline.connection.state.code, 3503);
    // What needs the connection fails, instead of waiting for ever.
    await assert.rejects(feedline.connection.insist(() => feedline.connection.rpc("timeline.read")), { code: 3503 });
  });

  test("a token of another user ends the connection", async () => {
    const [ann, bo] = [someone("ann"), someone("bo")];
    const feedline = new Feedline({ url: at.server.socketUrl, user: ann, token: at.server.token(bo) });
    feedline.open();
    await assert.rejects(feedline.ready(), { code: 3500, message: "the token is of another user" });
    assert.equal(feedline.connection.state.signedOut, true);
  });

  test("tries the first transport again once another has closed", () => {
    const used = [];
    const opened = [];
    const noted = (name) => (url, on) => {
      used.push(name);
      opened.push(on);
      return { send() {}, close() {} };
    };
    const transport = fallback(noted("socket"), noted("stream"));
    const on = { open() {}, frame() {}, close() {} };
    transport("", on);
    opened[0].close(1006, "blocked");
    transport("", on);
    opened[1].frame("{}");
    opened[1].close(0, "the server restarts");
    transport("", on);
    assert.deepEqual(used, ["socket", "stream", "socket"]);
  });
});
