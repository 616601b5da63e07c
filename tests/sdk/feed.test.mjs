// The feed over the SDK: server-side channels, live posts, RPC operations.

import assert from "node:assert/strict";
import { test } from "node:test";

import { refusal } from "../support/client.mjs";
import { someone, withServer } from "../support/setup.mjs";

const at = withServer();
const isOn = (channel) => (event) => event.channel === channel;
const postsOf = (client) => client.published.all.filter(({ data }) => data.type === "post");

test("a user is put into their timeline and notifications", async () => {
  const ann = someone("ann");
  const client = await at.connected(ann);
  const subs = client.serverSide.all.filter((event) => event.name === "subscribed");
  assert.deepEqual(subs.map(({ channel }) => channel).sort(), [`notifications:${ann}`, `timeline:${ann}`]);
  for (const sub of subs) assert.ok(sub.recoverable && sub.positioned, sub.channel);
});

test("a post arrives live at its author and at every follower, once", async () => {
  const [ann, bo, cy] = [someone("ann"), someone("bo"), someone("cy")];
  await at.server.meet(ann, bo, cy);
  await at.server.follow(ann, bo);
  const [follower, author, stranger] = [await at.connected(ann), await at.connected(bo), await at.connected(cy)];
  const post = await at.server.post(bo, "hello");
  for (const client of [follower, author]) {
    // The notification of the follow also arrives at the author's client, before or after the post.
    const { data } = await client.published.find((event) => event.data.type === "post");
    assert.equal(data.post.id, post.id);
    assert.equal(data.post.text, "hello");
  }
  const own = await at.server.post(cy, "only mine");
  await stranger.published.find(({ data }) => data.post.id === own.id);
  assert.equal(postsOf(stranger).length, 1);
  for (const client of [follower, author]) assert.equal(postsOf(client).length, 1);
});

test("an author's and a post's channel are open to those who may see them", async () => {
  const [ann, bo] = [someone("ann"), someone("bo")];
  await at.server.meet(ann, bo);
  const client = await at.connected(ann);
  const profile = await client.subscribed(`user:${bo}`);
  const topic = await client.subscribed("topic:rust");
  const post = await at.server.post(bo, "a word about #rust");
  assert.equal((await profile.published.first(1))[0].data.post.id, post.id);
  assert.equal((await topic.published.first(1))[0].data.post.id, post.id);
  await client.subscribed(`post:${post.id}`);
});

test("following brings posts in, unfollowing and deleting take them out, live", async () => {
  const [ann, bo] = [someone("ann"), someone("bo")];
  await at.server.meet(ann, bo);
  const old = await at.server.post(bo, "before");
  const client = await at.connected(ann);
  await at.server.follow(ann, bo);
  await client.published.find(({ data }) => data.type === "post" && data.post.id === old.id, "the merged post");
  const fresh = await at.server.post(bo, "after");
  await client.published.find(({ data }) => data.post?.id === fresh.id, "the new post");
  await at.server.done(bo, "DELETE", `/posts/${fresh.id}`);
  const gone = await client.published.find(({ data }) => data.type === "gone" && data.id === fresh.id, "the deletion");
  assert.equal(gone.data.reason, "deleted");
  await at.server.done(ann, "DELETE", `/users/${bo}/follow`);
  const left = await client.published.find(({ data }) => data.type === "gone" && data.id === old.id, "the unfollowing");
  assert.equal(left.data.reason, "unfollowed");
});

test("operations are called by rpc", async () => {
  const [ann, bo] = [someone("ann"), someone("bo")];
  await at.server.meet(ann, bo);
  const client = await at.connected(ann);
  const call = async (method, data = {}) => (await client.sdk.rpc(method, data)).data;
  assert.equal((await call("users.get", { id: bo })).id, bo);
  await call("users.follow", { id: bo });
  assert.deepEqual((await call("users.following", { id: ann })).items.map(({ id }) => id), [bo]);
  const post = await call("posts.create", { text: "by rpc" });
  assert.equal(post.author, ann);
  await client.published.find(isOn(`timeline:${ann}`));
  const page = await call("timeline.read", { limit: 10 });
  assert.deepEqual(page.items.map(({ id }) => id), [post.id]);
  assert.ok(page.position.offset >= 1 && page.position.epoch);
  assert.equal(page.next, undefined);
});

test("a timeline is read page by page to its beginning, nothing twice", async () => {
  const ann = someone("ann");
  await at.server.meet(ann);
  const client = await at.connected(ann);
  for (let n = 1; n <= 25; n += 1) await at.server.post(ann, `post ${n}`);
  await client.published.first(25);
  const texts = [];
  for (let cursor; ; ) {
    const { data } = await client.sdk.rpc("timeline.read", { limit: 10, ...(cursor && { cursor }) });
    texts.push(...data.items.map(({ text }) => text));
    if (!(cursor = data.next)) break;
    await at.server.post(ann, "in between");
  }
  assert.deepEqual(texts, Array.from({ length: 25 }, (_, i) => `post ${25 - i}`));
});

test("what rpc refuses has the status as its code", async () => {
  const [ann, bo] = [someone("ann"), someone("bo")];
  await at.server.meet(ann, bo);
  const post = await at.server.post(bo, "mine");
  const client = await at.connected(ann);
  const code = async (method, data) => (await refusal(client.sdk.rpc(method, data))).code;
  assert.equal(await code("users.get", { id: "nobody-at-all" }), 404);
  assert.equal(await code("posts.get", { id: 1 }), 404);
  assert.equal(await code("posts.delete", { id: post.id }), 403);
  assert.equal(await code("posts.create", { text: " " }), 400);
  assert.equal(await code("posts.create", { text: "x".repeat(5001) }), 422);
  assert.equal(await code("timeline.read", { limit: 101 }), 400);
  assert.equal(await code("no.such.method", {}), 108);
});
