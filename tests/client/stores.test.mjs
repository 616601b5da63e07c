// The stores that not every page needs, and what makes all of them easy to use: `ready`, pages, stable snapshots.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { Feedline } from "../../web/feedline/index.js";
import { until, withFeedline } from "../support/feedline.mjs";
import { someone } from "../support/setup.mjs";

const idsOf = (items) => items.map(({ id }) => id);
const textsOf = ({ items }) => items.map(({ text }) => text);

/** Two users who know each other, and a post of the second. */
async function withPost({ server }) {
  const [ann, bo] = [someone("ann"), someone("bo")];
  await server.meet(ann, bo);
  await server.follow(ann, bo);
  return { ann, bo, post: await server.post(bo, "a post") };
}

describe("operations", () => {
  const at = withFeedline();

  test("are called by group and name", async () => {
    const { ann, post } = await withPost(at);
    const { api } = await at.open(ann);
    const comment = await api.comments.create({ id: post.id, text: "hi" });
    assert.deepEqual([comment.text, comment.author], ["hi", ann]);
    assert.deepEqual(idsOf((await api.timeline.read()).items), [post.id]);
    await assert.rejects(api.posts.get({ id: 1 }), ({ code, reason }) => code === 404 && reason === "not_found");
    assert.equal(await api, api, "it can be awaited");
    assert.equal(api.posts.get, api.posts.get, "the same function each time");
  });

  test("list pages until the end", async () => {
    const { ann, bo } = await withPost(at);
    for (const n of [1, 2, 3, 4]) await at.server.post(bo, `post ${n}`);
    const feedline = await at.open(ann);
    const sizes = [];
    for await (const { items } of feedline.pages("users.posts", { id: bo, limit: 2 })) sizes.push(items.length);
    assert.deepEqual(sizes, [2, 2, 1]);
    for await (const { items } of feedline.pages("users.following", { id: ann })) assert.deepEqual(idsOf(items), [bo]);
  });
});

describe("ready", () => {
  const at = withFeedline();

  /** A client that is not opened yet. */
  const create = (user, token = at.server.token(user)) => new Feedline({ url: at.server.socketUrl, user, token });

  test("waits until the timeline was read, over a stream where there is no WebSocket", async () => {
    const { ann, post } = await withPost(at);
    const feedline = create(ann);
    const ready = feedline.ready();
    feedline.open();
    try {
      assert.equal(await ready, feedline.timeline);
      assert.deepEqual(idsOf(feedline.timeline.entries), [post.id]);
      assert.equal(await feedline.ready(), feedline.timeline, "at once");
    } finally {
      feedline.close();
    }
  });

  test("rejects if the connection ends, or the list is refused", async () => {
    const ann = someone("ann");
    const feedline = create(ann, "no token");
    const ready = feedline.ready();
    feedline.open();
    await assert.rejects(ready, { name: "Error", code: 3500 });
    const other = await at.open(ann);
    await assert.rejects(other.ready(other.openComments(1)), { code: 404 });
  });
});

describe("snapshots", () => {
  const at = withFeedline();

  test("are the same array until something changed, with the same entries where nothing did", async () => {
    const { ann, bo, post } = await withPost(at);
    const feedline = await at.open(ann);
    await until(() => feedline.timeline.entries.length === 1);
    const before = feedline.timeline.entries;
    assert.equal(feedline.timeline.entries, before);
    feedline.people.get("nobody");
    assert.equal(feedline.timeline.entries, before);
    await at.server.post(bo, "another");
    await until(() => feedline.timeline.entries.length === 2);
    const after = feedline.timeline.entries;
    assert.equal(after[1], before[0]);
    feedline.likes.toggle(after[1].post);
    assert.notEqual(feedline.timeline.entries, after);
    assert.deepEqual([feedline.timeline.entries[0], feedline.timeline.entries[1].like.liked], [after[0], true]);
    assert.equal(feedline.notifications.items, feedline.notifications.items);
    assert.equal(feedline.timeline.entries[1].id, post.id);
  });
});

describe("timelines", () => {
  const at = withFeedline();

  test("lose all posts of an author who is suspended, until that ends", async () => {
    const { ann, bo, post } = await withPost(at);
    const older = await at.server.post(bo, "another post");
    const own = await at.server.post(ann, "my own");
    const feedline = await at.open(ann);
    const { timeline } = feedline;
    await until(() => timeline.entries.length === 3);
    const suspend = (method, params) => at.server.backend("rpc", { method, params: { id: bo, ...params } });
    await suspend("users.suspend", { level: "suspended" });
    await until(() => timeline.entries.length === 1);
    assert.deepEqual(idsOf(timeline.entries), [own.id]);
    await suspend("users.unsuspend", {});
    await timeline.reload();
    await until(() => timeline.entries.length === 3);
    assert.deepEqual(idsOf(timeline.entries), [own.id, older.id, post.id]);
  });

  test("show a post that several users reposted once, as pages do", async () => {
    const { ann, bo, post: unrelated } = await withPost(at);
    const [cy, di, ed] = [someone("cy"), someone("di"), someone("ed")];
    await at.server.meet(cy, di, ed);
    for (const user of [cy, di]) await at.server.follow(ann, user);
    const { id } = await at.server.post(ed, "passed on");
    const feedline = await at.open(ann);
    const { timeline, api } = feedline;
    const repost = async (user) => (await at.server.done(user, "PUT", `/posts/${id}/repost`)).id;
    const undo = (user) => at.server.done(user, "DELETE", `/posts/${id}/repost`);
    /** What the page says, and the timeline without reading it again. */
    const same = async (what, wanted) => {
      const { items } = await api.timeline.read();
      const shape = (posts) => posts.map((one) => [one.id, one.repost?.id, one.reposted_by]);
      const page = shape(items);
      assert.deepEqual(page, wanted, what);
      const isSame = () => JSON.stringify(shape(timeline.entries.map(({ post }) => post))) === JSON.stringify(page);
      await until(isSame, `${what}: ${JSON.stringify(shape(timeline.entries.map(({ post }) => post)))}`);
    };
    const rest = [unrelated.id, undefined, undefined];
    const first = await repost(bo);
    await until(() => timeline.entries.length === 2);
    const second = await repost(cy);
    await repost(di);
    await same("reposts repeat it", [[first, id, { people: [cy, di], count: 2 }], rest]);
    await undo(bo);
    await same("what they repeat leaves", [[second, id, { people: [di], count: 1 }], rest]);
    await at.server.follow(ann, ed);
    await same("its author is followed", [[id, undefined, { people: [cy, di], count: 2 }], rest]);
    await undo(di);
    await same("a repeat leaves", [[id, undefined, { people: [cy], count: 1 }], rest]);
    await timeline.reload();
    await undo(cy);
    await same("a repeat leaves that only the page counted", [[id, undefined, undefined], rest]);
    await repost(cy);
    await at.server.done(ed, "DELETE", `/posts/${id}`);
    await same("it is deleted", [rest]);
    assert.equal(timeline.entries[0].post.id, unrelated.id);
  });

  test("of a list are live, catch up, and end with the list", async () => {
    const { ann, bo, post } = await withPost(at);
    const [cy, di] = [someone("cy"), someone("di")];
    await at.server.meet(cy, di);
    const feedline = await at.open(ann);
    const { api, network } = feedline;
    const { id } = await api.lists.create({ name: "near" });
    for (const user of [bo, cy]) await api.lists.add({ id, user });
    const list = feedline.openTimeline({ method: "lists.read", params: { id }, channel: `list:${id}` });
    await feedline.ready(list);
    const are = (...wanted) =>
      until(() => String(idsOf(list.entries)) === String(wanted), `not ${wanted}, but ${idsOf(list.entries)}`);
    await are(post.id);
    const live = await at.server.post(cy, "live");
    await are(live.id, post.id);
    assert.equal(list.entries[0].isLive, true);
    await at.server.done(cy, "PATCH", `/posts/${live.id}`, { text: "edited" });
    await until(() => list.entries[0].post.text === "edited");
    await at.server.done(cy, "PUT", `/posts/${post.id}/repost`);
    await until(() => list.entries[1].post.reposted_by?.count === 1, "the repost is counted");
    await are(live.id, post.id);
    network.cut();
    await until(() => !feedline.connection.isLive);
    const missed = await at.server.post(bo, "missed");
    await at.server.done(cy, "DELETE", `/posts/${live.id}`);
    network.mend();
    feedline.connection.nudge();
    await are(missed.id, post.id);
    assert.equal(list.marks[0].kind, "recovered");
    const before = await at.server.post(di, "before");
    await api.lists.add({ id, user: di });
    await are(before.id, missed.id, post.id);
    await api.lists.remove({ id, user: bo });
    // What another member reposted stays, as their repost.
    await until(() => list.entries.length === 2 && list.entries[1].post.repost?.id === post.id);
    await api.lists.delete({ id });
    await until(() => list.error?.code === 404, "it does not say that it ended");
  });
});

describe("filters", () => {
  const at = withFeedline();

  test("take posts and comments away, or mark them, and a change of them shows at once", async () => {
    const { ann, bo, post } = await withPost(at);
    const feedline = await at.open(ann);
    const { api, timeline } = feedline;
    const comments = await feedline.ready(feedline.openComments(post.id));
    const say = (text) => at.server.done(bo, "POST", `/posts/${post.id}/comments`, { text });
    const muted = await at.server.post(bo, "about turnips");
    const note = await say("turnips, again");
    await until(() => timeline.entries.length === 2 && comments.items.length === 1);
    timeline.watch([muted.id]);
    const shown = () => [timeline.entries, comments.items].map(idsOf);
    const are = (...wanted) => until(() => JSON.stringify(shown()) === JSON.stringify(wanted), `not ${wanted}`);
    const filter = await api.filters.create({ words: ["turnips"] });
    await are([post.id], []);
    await at.server.post(bo, "turnips, and more turnips");
    await say("more turnips");
    const other = await at.server.post(bo, "about tea");
    await are([other.id, post.id], []);
    // An edit may bring a word in, and take it out.
    const edit = (text) => at.server.done(bo, "PATCH", `/posts/${other.id}`, { text });
    await edit("about turnips");
    await are([post.id], []);
    await edit("about tea again");
    await timeline.reload();
    await are([other.id, post.id], []);
    await api.filters.update({ id: filter.id, action: "warn", in: ["home"] });
    await until(() => timeline.entries.length === 4 && comments.items.length === 2);
    const marks = () => timeline.entries.map((entry) => entry.post.filtered?.[0] ?? null);
    assert.deepEqual(marks(), [null, filter.id, filter.id, null]);
    timeline.watch([other.id]);
    await edit("turnips");
    await until(() => marks()[0] === filter.id);
    await edit("tea");
    await until(() => marks()[0] === null);
    await api.filters.update({ id: filter.id, in: ["comments"] });
    await until(() => comments.items.every(({ filtered }) => filtered?.[0] === filter.id));
    assert.deepEqual(marks(), [null, null, null, null]);
    await at.server.done(bo, "PATCH", `/comments/${note.id}`, { text: "tea" });
    await until(() => comments.items[1].filtered === undefined);
    await api.filters.delete({ id: filter.id });
    await until(() => comments.items[0].filtered === undefined);
  });
});

describe("comments", () => {
  const at = withFeedline();

  test("are listed, arrive live, are edited and removed", async () => {
    const { ann, bo, post } = await withPost(at);
    const say = (user, text, more) => at.server.done(user, "POST", `/posts/${post.id}/comments`, { text, ...more });
    const first = await say(bo, "first");
    const feedline = await at.open(ann);
    const comments = await feedline.ready(feedline.openComments(post.id));
    assert.deepEqual(textsOf(comments), ["first"]);
    const snapshot = comments.items;
    assert.equal(comments.items, snapshot);
    const mine = await comments.post("mine");
    assert.deepEqual(textsOf(comments), ["mine", "first"]);
    const second = await say(bo, "second");
    await until(() => comments.items.length === 3);
    assert.deepEqual(textsOf(comments), ["second", "mine", "first"]);
    assert.equal(comments.items[2], snapshot[0]);
    await at.server.done(bo, "PATCH", `/comments/${second.id}`, { text: "edited" });
    await until(() => comments.items[0].text === "edited");
    await say(bo, "a reply", { reply_to: first.id });
    await until(() => comments.items[2].replies === 1);
    await at.server.done(bo, "DELETE", `/comments/${second.id}`);
    await until(() => comments.items.length === 2);
    await at.server.done(bo, "DELETE", `/comments/${first.id}`);
    await until(() => comments.items[1].author === undefined);
    assert.deepEqual(idsOf(comments.items), [mine.id, first.id], "the one with a reply stays");
    comments.close();
  });

  test("are likeable, in their order, and read anew after a lost connection", async () => {
    const { ann, bo, post } = await withPost(at);
    const say = (text, more) => at.server.done(bo, "POST", `/posts/${post.id}/comments`, { text, ...more });
    const first = await say("first");
    const feedline = await at.open(ann);
    const [oldest, replies] = [{ order: "oldest" }, { replyTo: first.id }].map((options) =>
      feedline.openComments(post.id, options),
    );
    await Promise.all([feedline.ready(oldest), feedline.ready(replies)]);
    await say("second");
    await until(() => oldest.items.length === 2);
    assert.deepEqual(textsOf(oldest), ["first", "second"]);
    await replies.post("a reply");
    assert.deepEqual(textsOf(replies), ["a reply"]);
    assert.equal(oldest.items.length, 2);
    feedline.likes.toggle(oldest.items[0], "comment");
    assert.equal(feedline.likes.view(oldest.items[0]).state, "pending");
    await until(() => oldest.items[0].liked && oldest.items[0].likes === 1);
    feedline.network.cut();
    await until(() => !feedline.connection.isLive);
    await say("third");
    feedline.network.mend();
    feedline.connection.nudge();
    await until(() => oldest.items.length === 3);
    assert.deepEqual(textsOf(oldest), ["first", "second", "third"]);
  });
});

describe("follows and favourites", () => {
  const at = withFeedline();

  test("are set at once, stored, and listed", async () => {
    const { ann, bo, post } = await withPost(at);
    const cem = someone("cem");
    await at.server.meet(cem);
    const { favourites, follows, ...feedline } = await at.open(ann);
    assert.equal(follows.state, "idle", "nothing is read that nobody asked for");
    await follows.reload();
    assert.deepEqual([idsOf(follows.items), follows.has(bo), follows.has(cem)], [[bo], true, false]);
    const stored = follows.add(cem);
    assert.equal(follows.has(cem), true);
    assert.equal(await stored, true);
    assert.deepEqual(idsOf(follows.items), [cem, bo]);
    assert.equal(await follows.remove(bo), true);
    assert.deepEqual(idsOf((await at.server.done(ann, "GET", `/users/${ann}/following`)).items), [cem]);
    assert.equal(await favourites.add(post.id), true);
    assert.equal((await at.server.done(ann, "GET", `/posts/${post.id}`)).favourited, true);
    assert.deepEqual([favourites.has(post.id), favourites.has(2), favourites.has(2, true)], [true, false, true]);
    await favourites.reload();
    assert.equal(favourites.items[0].post.text, "a post");
    assert.equal(feedline.user, ann);
  });

  test("are taken back if the server refuses, which says why", async () => {
    const { follows } = await at.open(someone("ann"));
    const reverted = [];
    follows.on("reverted", ({ id, error }) => reverted.push([id, error.code]));
    assert.equal(await follows.add("nobody-at-all"), false);
    assert.deepEqual([reverted, follows.has("nobody-at-all")], [[["nobody-at-all", 404]], false]);
  });
});
