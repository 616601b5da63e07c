// A timeline shows a post once a day, whoever reposts it: histories of reposts, their ends, follows, edits, deletions
// and a killed server. A client that saw all of it, clients that return from any earlier offset, and the page agree.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { until, withFeedline } from "../support/feedline.mjs";
import { Redis } from "../support/server.mjs";
import { someone } from "../support/setup.mjs";

const REPOSTERS = 20;
const AUTHORS = 3;
const STEPS = 90;
/** After as many steps, another client reads the timeline and then loses its network until the end. */
const STEPS_AWAY = 5;

/** Random numbers that are the same for the same seed. */
function generator(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** What a reader sees of each post: its id, that of the reposted one, and who else reposted it. */
const shown = (posts) => posts.map((post) => [post.id, post.repost?.id ?? null, post.reposted_by?.count ?? 0]);

describe("a post that many repost", () => {
  let redis;
  before(async () => {
    redis = await Redis.start();
  });
  after(() => redis.stop());
  const at = withFeedline(() => ({ FEEDLINE__BROKER__URL: redis.url }));

  const seed = Number(process.env.FEEDLINE_SEED ?? Date.now() % 2 ** 32);

  test(`is shown once, live, on pages and after a return from any offset (FEEDLINE_SEED=${seed})`, async () => {
    const random = generator(seed);
    const pick = (all) => all[random(all.length)];
    const reader = someone("reader");
    const reposters = Array.from({ length: REPOSTERS }, (_, n) => someone(`by${n}`));
    const authors = Array.from({ length: AUTHORS }, (_, n) => someone(`author${n}`));
    await at.server.meet(reader, ...reposters, ...authors);
    for (const user of reposters.slice(0, REPOSTERS / 2)) await at.server.follow(reader, user);
    const apart = await at.server.done(reader, "POST", "/lists", { name: "apart", exclusive: true });
    const posts = [];
    for (const author of [...authors, ...authors]) posts.push({ author, ...(await at.server.post(author, "a post")) });

    /** @type {Record<string, () => Promise<unknown>>} */
    const steps = {
      repost: () => at.server.call(pick([reader, ...reposters]), "PUT", `/posts/${pick(posts).id}/repost`),
      undo: () => at.server.call(pick([reader, ...reposters]), "DELETE", `/posts/${pick(posts).id}/repost`),
      follow: () => at.server.call(reader, "PUT", `/users/${pick([...reposters, ...authors])}/follow`),
      unfollow: () => at.server.call(reader, "DELETE", `/users/${pick([...reposters, ...authors])}/follow`),
      edit: async () => {
        const { id, author } = pick(posts);
        await at.server.call(author, "PATCH", `/posts/${id}`, { text: `edited ${random(1000)}` });
      },
      write: async () => {
        const author = pick(authors);
        posts.push({ author, ...(await at.server.post(author, `another ${random(1000)}`)) });
      },
      delete: async () => {
        const [{ id, author }] = posts.splice(random(posts.length), 1);
        await at.server.done(author, "DELETE", `/posts/${id}`);
      },
      list: () => at.server.call(reader, pick(["PUT", "DELETE"]), `/lists/${apart.id}/users/${pick(authors)}`),
      kill: async () => {
        await at.server.kill();
        await at.server.restart();
      },
    };
    const seldom = ["undo", "undo", "follow", "unfollow", "edit", "write", "list"];
    const often = ["repost", "repost", "repost", "repost", ...seldom];

    const history = [];
    const live = await at.open(reader);
    const away = [];
    const page = async () => shown((await live.api.timeline.read({ limit: 100 })).items);
    const seenBy = ({ timeline }) => shown(timeline.entries.map(({ post }) => post));
    /** Waits until a client shows the page, and the page changes no more. */
    const agrees = async (client, what) => {
      let wanted;
      const isSame = async () => {
        wanted = JSON.stringify(await page());
        return JSON.stringify(seenBy(client)) === wanted;
      };
      const message = () => `${what}: ${JSON.stringify(seenBy(client))} is not ${wanted} after ${history.join(" ")}`;
      await until(isSame, message);
    };
    const findRepeats = (all) => {
      const posts = all.map(([id, repost]) => repost ?? id);
      return posts.filter((id, n) => posts.indexOf(id) !== n);
    };

    for (let step = 1; step <= STEPS; step++) {
      const name = step === STEPS / 2 ? "kill" : posts.length > AUTHORS && random(20) === 0 ? "delete" : pick(often);
      history.push(name);
      await steps[name]();
      if (step % STEPS_AWAY === 0) {
        await agrees(live, `live, step ${step}`);
        assert.deepEqual(findRepeats(await page()), [], history.join(" "));
        const client = await at.open(reader);
        client.network.cut();
        away.push({ client, step });
      }
    }
    await agrees(live, "live, at the end");
    for (const { client, step } of away) {
      client.network.mend();
      client.connection.nudge();
      await agrees(client, `back from step ${step}`);
    }
    await at.server.done(reader, "DELETE", `/lists/${apart.id}`);
    const { items: followees } = await live.api.users.following({ id: reader, limit: 100 });
    const wanted = [];
    for (const { id: user } of followees) {
      const { items } = await live.api.users.posts({ id: user, limit: 100 });
      for (const { id, repost } of items) wanted.push(repost?.id ?? id);
    }
    const missing = async () => {
      const there = new Set((await page()).map(([id, repost]) => repost ?? id));
      return wanted.filter((id) => !there.has(id));
    };
    await until(async () => (await missing()).length === 0, `some are missing after ${history.join(" ")}`);
  });
});
