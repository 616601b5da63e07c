// The official SDK over HTTP streams and server-sent events: commands go to /emulation.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { bytes, Client, parsed, Recorder, refusal } from "../support/client.mjs";
import { losesNothing } from "../support/recovery.mjs";
import { someone, withServer } from "../support/setup.mjs";

const seconds = (offset) => Math.floor(Date.now() / 1000) + offset;
const numbers = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

for (const options of [
  { transport: "http_stream" },
  { transport: "http_stream", protocol: "protobuf" },
  { transport: "sse" },
]) {
  const isProtobuf = options.protocol === "protobuf";
  const sent = (data) => (isProtobuf ? bytes(data) : data);
  const got = (data) => (isProtobuf ? parsed(data) : data);
  const name = `${options.transport}-${options.protocol ?? "json"}`;

  describe(`${options.transport}, ${options.protocol ?? "json"}`, () => {
    const at = withServer();

    test("a client connects over this transport", async () => {
      const ann = someone("ann");
      const client = await at.connected(ann, options);
      const [connected] = client.connection.all.filter((event) => event.name === "connected");
      assert.equal(connected.transport, options.transport);
      const subs = client.serverSide.all.filter((event) => event.name === "subscribed");
      assert.deepEqual(subs.map(({ channel }) => channel).sort(), [`notifications:${ann}`, `timeline:${ann}`]);
    });

    test("publications arrive live, in both directions and order", async () => {
      const a = await (await at.connected(someone("ann"), options)).subscribed(`chat:${name}`);
      const b = await (await at.connected(someone("bo"))).subscribed(`chat:${name}`);
      for (const n of numbers(1, 20)) await at.server.publish(`chat:${name}`, { n, text: "line\nbreak" });
      await a.published.first(20);
      for (const n of numbers(21, 25)) await a.sub.publish(sent({ n, text: "line\nbreak" }));
      const expected = numbers(1, 25).map((n) => ({ n, text: "line\nbreak" }));
      assert.deepEqual((await a.published.first(25)).map(({ data }) => got(data)), expected);
      assert.deepEqual((await b.published.first(25)).map(({ data }) => data), expected);
    });

    test("lost publications are recovered, in order, nothing twice", async () => {
      await losesNothing(at, options, `chat:lost-${name}`, got);
    });

    test("a killed server is found again, and a timeline recovers", async () => {
      const [ann, bo] = [someone("ann"), someone("bo")];
      await at.server.meet(ann, bo);
      await at.server.follow(ann, bo);
      const client = await at.connected(ann, options);
      const seen = await at.server.post(bo, "seen");
      await client.published.first(1);
      await at.server.shutdown();
      await at.server.restart();
      const times = () => client.connection.all.filter((event) => event.name === "connected").length;
      await client.connection.find(() => times() >= 2, "connected again");
      const next = await at.server.post(bo, "next");
      await client.published.find(({ data }) => got(data).post?.id === next.id, "the next post");
      const posts = client.published.all.map(({ data }) => got(data).post?.id);
      assert.deepEqual(posts.filter((id) => id === seen.id), [seen.id]);
    });

    test("presence, joins, leaves and history", async () => {
      const [ann, bo] = [someone("ann"), someone("bo")];
      const channel = `chat:here-${name}`;
      const a = await (await at.connected(ann, options)).subscribed(channel);
      const other = await at.connected(bo, options);
      const b = await other.subscribed(channel);
      await a.joined.find(({ info }) => info.user === bo, "bo's join");
      const { clients } = await a.sub.presence();
      assert.deepEqual(Object.values(clients).map(({ user }) => user).sort(), [ann, bo].sort());
      await b.sub.publish(sent(1));
      assert.deepEqual((await a.sub.history({ limit: 10 })).publications.map(({ data }) => got(data)), [1]);
      other.close();
      await a.left.find(({ info }) => info.user === bo, "bo's leave");
    });

    test("operations, and their refusals", async () => {
      const ann = someone("ann");
      await at.server.meet(ann);
      const client = await at.connected(ann, options);
      const created = got((await client.sdk.rpc("posts.create", sent({ text: "over a stream" }))).data);
      const { items } = got((await client.sdk.rpc("timeline.read", sent({}))).data);
      assert.deepEqual(items.map(({ id }) => id), [created.id]);
      assert.equal((await refusal(client.sdk.rpc("no.such", sent({})))).code, 108);
    });

    test("many commands at once keep their order", async () => {
      const channel = `chat:many-${name}`;
      const { sub, published } = await (await at.connected(someone("ann"), options)).subscribed(channel);
      // A batch is one request.
      const sdk = sub._centrifuge;
      sdk.startBatching();
      const all = numbers(1, 60).map((n) => sub.publish(sent(n)));
      sdk.stopBatching();
      await Promise.all(all);
      assert.deepEqual((await published.first(60)).map(({ data }) => got(data)), numbers(1, 60));
    });

    test("an expiring token is refreshed, and the connection stays", async () => {
      const user = someone("ann");
      await at.server.meet(user);
      const asked = new Recorder();
      const getToken = async () => {
        asked.add("a token");
        return at.server.token(user, { exp: seconds(asked.all.length === 1 ? 2 : 3600) });
      };
      const token = at.server.token(user, { exp: seconds(2) });
      const client = await at.connected(null, { ...options, token, getToken });
      await asked.first(2, "tokens");
      assert.equal(got((await client.sdk.rpc("users.get", sent({ id: user }))).data).id, user);
      assert.equal(client.connection.all.filter((event) => event.name === "connecting").length, 1);
    });

    test("refusals have the codes of the protocol", async () => {
      assert.equal((await at.client(null, { ...options, token: "nonsense" }).refused()).code, 3500);
      assert.equal((await at.client(null, options).refused()).code, 3501);
      const client = await at.connected(someone("ann"), options);
      for (const [channel, code] of Object.entries({ "nowhere:a": 102, "closed:a": 103 })) {
        const { sub, state } = client.channel(channel);
        sub.subscribe();
        assert.equal((await state.find((event) => event.name === "unsubscribed")).code, code, channel);
      }
    });
  });
}

describe("fallback", () => {
  const at = withServer();

  test("the SDK falls back to a stream where WebSockets are blocked", async () => {
    const token = at.server.token(someone("bo"));
    const fallback = new Client(
      [
        { transport: "websocket", endpoint: `${at.server.socketUrl}/blocked` },
        { transport: "http_stream", endpoint: `${at.server.origin}/connection/http_stream` },
      ],
      { token, emulationEndpoint: `${at.server.origin}/emulation` },
    );
    try {
      await fallback.connected();
      const connected = fallback.connection.all.find((event) => event.name === "connected");
      assert.equal(connected.transport, "http_stream");
    } finally {
      fallback.close();
    }
  });
});
