// Reposts in a timeline: what is folded from events is what the server's pages say.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { PostList } from "../../web/feedline/posts.js";
import { TIMELINE, post, setUp, standing } from "./client.mjs";
import { settled, startTime, stopTime } from "./scripted.mjs";

beforeEach(stopTime);
afterEach(startTime);

const HOUR = 3_600_000 * 4096;
const DAY = 24 * HOUR;
/** How many random histories there are. */
const HISTORIES = Number(process.env.FEEDLINE_HISTORIES ?? 1_000);
/** An id of an hour. */
const at = (hour) => 1 + hour * HOUR;
const repostOf = (id, author, of) => ({ id, author, text: "", created_at: id, repost: of });
const stub = (id, author, of) => ({ type: "reposted", id: of, repost: id, by: { id: author, name: author } });
const gone = (id, reason = "deleted") => ({ type: "gone", id, reason });
const page = (items, offset = 1, next) => ({ items, position: { offset, epoch: "e" }, ...(next && { next }) });
const ids = (list) => list.shown.map(({ id }) => id);
const by = (list, id) => list.posts.get(id)?.reposted_by;

function read(...items) {
  const list = new PostList(true);
  list.take(page(items));
  return list;
}

test("a repost is hidden within a day after the post, or after an earlier repost of it", () => {
  const list = read(post(at(0)));
  list.apply({ type: "post", post: repostOf(at(23), "cy", post(at(0))) }, 2);
  list.apply({ type: "post", post: repostOf(at(46), "di", post(at(0))) }, 3);
  list.apply({ type: "post", post: repostOf(at(70), "ed", post(at(0))) }, 4);
  assert.deepEqual(ids(list), [at(70), at(0)]);
  assert.deepEqual(by(list, at(0)), { people: ["cy", "di"], count: 2 });
  assert.equal(by(list, at(70)), undefined);
});

test("other lists show all of them", () => {
  const list = new PostList();
  list.take(page([repostOf(at(2), "cy", post(at(1))), post(at(1))]));
  assert.deepEqual(ids(list), [at(2), at(1)]);
});

test("a repeat is shown, at its place, when what it repeats leaves", () => {
  const list = read(post(at(4)), repostOf(at(1), "bo", post(at(0), { author: "ann", text: "by ann" })));
  list.apply(stub(at(2), "cy", at(0)), 2);
  list.apply(stub(at(3), "di", at(0)), 3);
  assert.deepEqual([ids(list), by(list, at(1))], [[at(4), at(1)], { people: ["cy", "di"], count: 2 }]);
  list.apply(gone(at(1)), 4);
  assert.deepEqual([ids(list), by(list, at(2))], [[at(4), at(2)], { people: ["di"], count: 1 }]);
  assert.deepEqual([list.posts.get(at(2)).author, list.posts.get(at(2)).repost.text], ["cy", "by ann"]);
  list.apply(gone(at(3)), 5);
  assert.deepEqual([ids(list), by(list, at(2))], [[at(4), at(2)], undefined]);
  assert.equal(list.isStale, false);
});

test("the same holds for a post that is unfollowed or unlisted, and not for one that is gone for good", () => {
  const here = [at(1)];
  for (const [reason, shown] of [["unfollowed", here], ["unlisted", here], ["deleted", []], ["hidden", []]]) {
    const list = read(post(at(0), { author: "ann" }));
    list.apply(stub(at(1), "bo", at(0)), 2);
    list.apply(gone(at(0), reason), 3);
    assert.deepEqual(ids(list), shown, reason);
    assert.equal(list.isStale, false, reason);
  }
});

test("the middle of a chain leaves: what was only a day behind it is shown", () => {
  const list = read(repostOf(at(1), "bo", post(at(0), { author: "ann" })));
  list.apply(stub(at(20), "cy", at(0)), 2);
  list.apply(stub(at(40), "di", at(0)), 3);
  assert.deepEqual(ids(list), [at(1)]);
  list.apply(gone(at(20)), 4);
  assert.deepEqual(ids(list), [at(40), at(1)]);
});

test("a followee's earlier repost takes the place of a later one", () => {
  const list = read({ ...repostOf(at(5), "cy", post(at(0))), reposted_by: { people: ["di"], count: 1 } });
  list.apply({ type: "post", post: repostOf(at(3), "bo", post(at(0))) }, 2);
  list.take(page([], 3));
  assert.deepEqual([ids(list), by(list, at(3))], [[at(3)], { people: ["cy", "di"], count: 2 }]);
});

test("what only the server knows makes the list stale", () => {
  const told = { ...repostOf(at(1), "bo", post(at(0))), reposted_by: { people: ["cy"], count: 1 } };
  const cases = {
    "the repeats of a page have no ids": [[told], [[gone(at(1)), 2]], true],
    "one of them leaves": [[told], [[gone(at(2)), 2]], true],
    "one that is only counted may hide the next": [
      [told],
      [[stub(at(20), "di", at(0)), 2], [stub(at(26), "ed", at(0)), 3], [gone(at(20)), 4]],
      true,
    ],
    "one that came after the page leaves": [[told], [[stub(at(3), "di", at(0)), 2], [gone(at(3)), 3]], false],
    "a post leaves that was never here": [[post(at(5))], [[gone(at(2)), 2]], false],
    "what is repeated may be on a later page": [[post(at(5))], [[stub(at(9), "cy", at(0)), 2], [gone(at(2)), 3]], true],
    "it was more than a day before": [[post(at(5))], [[stub(at(50), "cy", at(0)), 2], [gone(at(2)), 3]], false],
    "an author is suspended": [[told], [[{ type: "gone", author: "cy", reason: "hidden" }, 2]], true],
  };
  for (const [name, [items, events, isStale]] of Object.entries(cases)) {
    const list = new PostList(true);
    list.take(page(items, 1, "more"));
    for (const [event, offset] of events) list.apply(event, offset);
    assert.equal(list.isStale, isStale, name);
  }
});

test("a repeat that the page has counted is not counted again", () => {
  const list = new PostList(true);
  list.take(page([post(at(9))], 1, "more"));
  list.apply(stub(at(8), "cy", at(0)), 2);
  list.apply(stub(at(10), "di", at(0)), 4);
  list.take(page([{ ...post(at(0)), reposted_by: { people: ["bo"], count: 5 } }], 3));
  assert.deepEqual(by(list, at(0)), { people: ["bo", "di"], count: 6 });
});

test("what a page shows is not counted by a page that was read later, if it became a repeat after that", () => {
  // A repost on the first page, with a repeat of its own, and the post two days before it on the second.
  const repost = { ...repostOf(at(40), "ed", post(at(0))), reposted_by: { people: ["ann"], count: 1 } };
  const original = { ...post(at(0)), reposted_by: { people: ["bo"], count: 1 } };
  for (const later of [4, 6]) {
    const list = new PostList(true);
    list.take(page([repost], 4, "more"));
    list.take(page([original], later));
    list.apply(stub(at(20), "di", at(0)), 7);
    assert.deepEqual([ids(list), by(list, at(0))?.count], [[at(0)], 4], `read at ${later}`);
  }
  // It had become a repeat: it is among those that the page counts.
  const list = new PostList(true);
  list.take(page([repost], 4, "more"));
  list.apply(stub(at(20), "di", at(0)), 5);
  list.take(page([{ ...original, reposted_by: { people: ["bo", "di", "ed"], count: 4 } }], 6));
  assert.deepEqual(by(list, at(0)), { people: ["bo", "di", "ed"], count: 4 });
});

test("repeats of what a page shows are new to the older post, unless the page that showed it counted them", () => {
  const list = new PostList(true);
  list.take(page([post(at(90))], 1, "more"));
  list.take(page([repostOf(at(40), "ed", post(at(0)))], 4, "more"));
  list.apply(stub(at(45), "fay", at(0)), 5);
  list.take(page([{ ...post(at(0)), reposted_by: { people: ["bo"], count: 1 } }], 6));
  assert.deepEqual([by(list, at(40))?.count, by(list, at(0))?.count], [1, 1]);
  list.apply(stub(at(20), "di", at(0)), 7);
  assert.deepEqual([ids(list), by(list, at(0))], [[at(90), at(0)], { people: ["bo", "di", "ed"], count: 4 }]);
});

test("a repeat of a page that is not loaded waits for that page when what it repeats leaves", () => {
  const list = new PostList(true);
  list.take(page([post(at(49))], 1, "more"));
  list.apply({ type: "post", post: post(at(3)) }, 2);
  list.apply(stub(at(31), "ann", at(3)), 3);
  list.apply(stub(at(16), "cy", at(3)), 4);
  list.apply(gone(at(16)), 5);
  const counted = { people: ["fay", "ann"], count: 2 };
  list.take(page([{ ...post(at(3)), reposted_by: counted }], 5));
  assert.deepEqual([ids(list), by(list, at(3))], [[at(49), at(3)], counted]);
});

test("what leaves before its page is read uncovers a repost on an earlier page at the next read", () => {
  // A post at 4, with reposts at 19 and 41: the second repeats the first alone.
  const list = new PostList(true);
  list.take(page([post(at(36))], 4, "more"));
  list.take(page([post(at(4))], 5));
  list.apply(gone(at(19)), 5);
  assert.deepEqual([ids(list), list.isStale], [[at(36), at(4)], false]);
  assert.deepEqual(ids(read(repostOf(at(41), "di", post(at(4))), post(at(36)), post(at(4)))), [at(41), at(36), at(4)]);
});

test("the posts of a suspended author leave in all forms", () => {
  const quoting = { ...post(at(6)), quote: { id: at(0), state: "shown", post: post(at(0), { author: "ann" }) } };
  const list = read(quoting, repostOf(at(5), "bo", post(at(1), { author: "ann" })), post(at(2), { author: "ann" }));
  list.apply({ type: "gone", author: "ann", reason: "hidden" }, 2);
  assert.deepEqual(ids(list), [at(6)]);
  assert.deepEqual(list.posts.get(at(6)).quote, { id: at(0), state: "unavailable" });
});

test("edits and counts of a post are those of its reposts and quotes", () => {
  const [own, other] = [post(at(0), { liked: true, reposts: 1, quotes: 0 }), post(at(30))];
  const quoting = { ...post(at(31)), quote: { id: at(0), state: "shown", post: own } };
  const list = read(repostOf(at(40), "bo", own), quoting, other);
  list.apply({ type: "edited", post: post(at(0), { text: "new", edited_at: 5 }) }, 2);
  const shown = () => [list.posts.get(at(40)).repost, list.posts.get(at(31)).quote.post];
  assert.deepEqual(shown().map(({ text, liked }) => [text, liked]), [["new", true], ["new", true]]);
  assert.ok(list.patch(at(0), { likes: 7, version: 9 }));
  assert.ok(list.patch(at(0), { likes: 7, reposts: 3, quotes: 1, version: 10 }));
  assert.ok(!list.patch(at(0), { likes: 6, version: 8 }));
  assert.ok(!list.patch(at(0), { reposts: 2, version: 9 }), "one version is that of all counts");
  assert.deepEqual(shown().map(({ likes, reposts }) => [likes, reposts]), [[7, 3], [7, 3]]);
  assert.equal(list.posts.get(at(30)), other, "others are not touched");
});

test("likes of a repost are those of the post", async () => {
  const { server, feedline, push } = await setUp();
  await push(TIMELINE, { type: "post", post: repostOf(at(2), "bo", post(at(1), { likes: 4 })) }, 4);
  const entry = () => feedline.timeline.entries[0];
  feedline.likes.toggle(entry().post.repost);
  assert.deepEqual([entry().id, entry().post.repost.likes, entry().like.state], [at(2), 5, "pending"]);
  await settled();
  assert.equal(server.socket.call("likes.add").rpc.data.post, at(1));
});

test("posts on screen are watched by the id of the post, and what is not known of them is read", async () => {
  const { server, feedline, push } = await setUp();
  await push(TIMELINE, { type: "post", post: repostOf(at(2), "bo", post(at(1))) }, 4);
  feedline.timeline.watch([at(2), 30]);
  await settled();
  const subscribed = server.socket.sent.filter(({ subscribe }) => subscribe).map(({ subscribe }) => subscribe.channel);
  assert.deepEqual(subscribed.sort(), [`post:${at(1)}`, "post:30"].sort());
  assert.deepEqual(server.socket.call("posts.many").rpc.data.ids, [at(1)]);
  server.socket.answerCall("posts.many", { items: [post(at(1), { liked: true, favourited: true, likes: 2 })] });
  await settled();
  const { repost } = feedline.timeline.entries[0].post;
  assert.deepEqual([repost.liked, repost.favourited, repost.likes], [true, true, 2]);
  const counts = async (more) => push(`post:${at(1)}`, { type: "counts", id: at(1), ...more });
  for (const { id } of server.socket.sent.filter(({ subscribe }) => subscribe)) {
    server.socket.say({ id, subscribe: {} });
  }
  await settled();
  await counts({ likes: 3, comments: 1, version: 50 });
  await counts({ likes: 3, comments: 1, reposts: 6, quotes: 2, version: 51 });
  await counts({ likes: 2, comments: 1, reposts: 5, quotes: 2, version: 49 });
  const now = () => feedline.timeline.entries[0].post.repost;
  assert.deepEqual([now().likes, now().comments, now().reposts, now().quotes], [3, 1, 6, 2]);
  await push(`post:${at(1)}`, { type: "edited", post: post(at(1), { text: "better", edited_at: 3 }) });
  assert.deepEqual([now().text, now().liked], ["better", true]);
});

test("a stale timeline is read anew, once", async () => {
  const { server, feedline, push } = await setUp();
  await push(TIMELINE, stub(40, "bo", 30), 4);
  await push(TIMELINE, stub(41, "cy", 30), 5);
  assert.deepEqual(feedline.timeline.entries[0].post.reposted_by, { people: ["bo", "cy"], count: 2 });
  assert.equal(feedline.people.get("cy").name, "cy", "it came along");
  const reads = () => server.socket.sent.filter(({ rpc }) => rpc?.method === "timeline.read").length;
  const before = reads();
  await push(TIMELINE, gone(30, "unfollowed"), 6);
  assert.deepEqual([feedline.timeline.entries[0].id, reads()], [40, before]);
  await push(TIMELINE, stub(50, "bo", 5), 7);
  await push(TIMELINE, gone(6), 8);
  await push(TIMELINE, gone(7), 9);
  assert.equal(reads(), before + 1);
});

test("one's quote shows what it quotes before it is stored", async () => {
  const { server, feedline } = await setUp();
  const key = feedline.timeline.post({ text: "look", quote: 30 });
  assert.equal(feedline.timeline.entries[0].post.quote.post.text, "post 30");
  assert.equal(feedline.timeline.discard(key), null, "it is not failed");
  await settled();
  assert.equal(server.socket.call("posts.create").rpc.data.quote, 30);
  server.socket.refuseCall("posts.create", { code: 403, message: "no" });
  await settled();
  feedline.timeline.retry(key);
  await settled();
  assert.equal(feedline.timeline.entries[0].post.quote.post.text, "post 30");
  feedline.timeline.post({ text: "of elsewhere", quote: 5 }, "key", 30, post(5));
  assert.equal(feedline.timeline.entries[0].post.quote.post.text, "post 5");
  await settled();
  server.socket.refuseCall("posts.create", { code: 403, message: "no" });
  await settled();
  server.socket.refuseCall("posts.create", { code: 403, message: "no" });
  await settled();
  feedline.timeline.retry("key");
  assert.equal(feedline.timeline.entries[0].post.quote.post.text, "post 5");
});

/** The server's rules, in the words of the specification. */
class Model {
  /** What the reader's timeline has. Ann is the reader: her own reposts are not counted. */
  followed = new Set(["ann", "bo"]);
  posts = new Map();
  log = [];

  has = ({ author, repost }) => this.followed.has(author) && (!repost || this.posts.has(repost));
  sources = (of) => [...this.posts.values()].filter((one) => (one.repost ?? one.id) === of && this.has(one));
  isRepeat({ id, repost }) {
    return Boolean(repost) && this.sources(repost).some((one) => one.id < id && id - one.id < DAY);
  }
  shown() {
    const all = [...this.posts.values()].filter((one) => this.has(one) && !this.isRepeat(one));
    return all.sort((a, b) => b.id - a.id);
  }

  /** The id of what is shown in place of a repeat; that of anything else is its own. */
  rootOf({ id, repost = id }) {
    const before = this.sources(repost).filter((one) => one.id < id).sort((a, b) => b.id - a.id);
    return before.reduce((root, one) => (root - one.id < DAY ? one.id : root), id);
  }

  repeatsOf({ id, repost = id }) {
    let last = id;
    const people = [];
    for (const one of this.sources(repost).sort((a, b) => a.id - b.id)) {
      if (one.id <= id) continue;
      if (one.id - last >= DAY) break;
      last = one.id;
      if (one.author !== "ann") people.push(one.author);
    }
    return people.length > 0 ? { people: people.slice(0, 3), count: people.length } : undefined;
  }

  render = (one) => {
    const reposts = [...this.posts.values()].filter(({ repost }) => repost === (one.repost ?? one.id)).length;
    if (!one.repost) return post(one.id, { ...one, reposts });
    return repostOf(one.id, one.author, post(one.repost, { author: "x", reposts }));
  };
  page(before, size) {
    const all = this.shown().filter(({ id }) => id < before);
    const items = all.slice(0, size).map((one) => ({ ...this.render(one), reposted_by: this.repeatsOf(one) }));
    return page(items, this.log.length, all.length > size ? String(items.at(-1).id) : undefined);
  }
  /** An entry of the log, as it is delivered when it is written. */
  arrive(one) {
    if (!this.has(one)) return;
    const isRepeat = this.isRepeat(one);
    this.log.push(isRepeat ? stub(one.id, one.author, one.repost) : { type: "post", post: this.render(one) });
  }
  /** Takes posts out by a change, and writes to the log what left. */
  leave(posts, change, reasonOf) {
    const left = posts.filter(this.has).map((one) => ({ ...gone(one.id, reasonOf(one)), root: this.rootOf(one) }));
    change();
    this.log.push(...left);
  }
}

test("any order of reposts, undos, follows, deletions and reads ends where the page does", () => {
  let staleOnes = 0;
  for (let seed = 1; seed <= HISTORIES; seed += 1) {
    // All products are exact: each seed has a history of its own.
    let state = (seed * 2654435761) % 4294967296;
    const below = (n) => {
      state = (state * 1664525 + 1013904223) % 4294967296;
      return Math.floor((state / 4294967296) * n);
    };
    const model = new Model();
    let clock = 0;
    const PEOPLE = ["ann", "bo", "cy", "di", "ed"];
    const act = () => {
      clock += 1 + below(9);
      const id = at(clock);
      const author = PEOPLE[below(5)];
      const originals = [...model.posts.values()].filter(({ repost }) => !repost);
      const all = [...model.posts.values()];
      const kind = below(10);
      if (kind < 2 || originals.length === 0) {
        model.posts.set(id, { id, author });
        model.arrive(model.posts.get(id));
      } else if (kind < 6) {
        const { id: repost } = originals[below(Math.min(3, originals.length))];
        if (all.some((one) => one.repost === repost && one.author === author)) return;
        model.posts.set(id, { id, author, repost });
        model.arrive(model.posts.get(id));
      } else if (kind < 8) {
        const left = all[below(all.length)];
        const with_ = left.repost ? [left] : [left, ...all.filter(({ repost }) => repost === left.id)];
        const remove = () => with_.forEach(({ id }) => model.posts.delete(id));
        model.leave(with_, remove, (one) => (one === left ? "deleted" : "hidden"));
      } else if (author === "ann") {
        return;
      } else if (model.followed.has(author)) {
        const theirs = all.filter((one) => one.author === author);
        model.leave(theirs, () => model.followed.delete(author), () => "unfollowed");
      } else {
        model.followed.add(author);
        for (const one of all.filter((one) => one.author === author)) model.arrive(one);
      }
    };
    let list;
    let delivered;
    /** By the index of an event: where the pages ended that were read before it, if a page was read after it. */
    let floors;
    const size = 2 + below(4);
    const open = () => {
      list = new PostList(true, "ann");
      delivered = model.log.length;
      floors = [];
      list.take(model.page(Infinity, size));
    };
    const readOlder = () => {
      const floor = Number(list.next);
      for (let index = delivered; index < model.log.length; index += 1) floors[index] ??= floor;
      list.take(model.page(floor, size));
    };
    const deliver = () => {
      if (delivered >= model.log.length) return;
      const { root, ...event } = model.log[delivered];
      // What leaves from a page that was not read before, or repeats something there, may uncover a repost on one that
      // was: only a later read shows that.
      const floor = floors[delivered] ?? Number(list.next);
      const mayUncover = event.type === "gone" && root < floor && floor - event.id < DAY;
      list.apply(event, ++delivered);
      if (mayUncover) open();
    };
    for (let n = below(12); n > 0; n -= 1) act();
    open();
    for (let n = 0; n < 40; n += 1) {
      act();
      if (below(3)) while (delivered < model.log.length) deliver();
      if (!below(8) && list.next) readOlder();
      if (list.isStale) {
        staleOnes += 1;
        open();
      }
    }
    while (delivered < model.log.length || list.next) {
      if (list.next) readOlder();
      deliver();
    }
    if (list.isStale) continue;
    const said = (posts, of) => posts.map((one) => [one.id, of(one)?.count ?? 0]);
    assert.deepEqual(
      said(list.shown, ({ reposted_by }) => reposted_by),
      said(model.shown(), (one) => model.repeatsOf(one)),
      `seed ${seed}`,
    );
    assert.ok(list.shown.every(({ repost }) => !repost || repost.author), `seed ${seed}: with their posts`);
  }
  const perHistory = staleOnes / HISTORIES;
  assert.ok(perHistory > 0.1 && perHistory < 2, `${perHistory} reads in 40 steps`);
});

test("a reconnection applies what was missed", async () => {
  const { feedline, reconnect } = await setUp();
  const missed = [{ data: stub(40, "bo", 30), offset: 4 }, { data: gone(30, "unfollowed"), offset: 5 }];
  await reconnect(standing(3, { recovered: true, was_recovering: true, publications: missed }));
  assert.deepEqual(feedline.timeline.entries.map(({ id }) => id), [40, 20, 10]);
});
