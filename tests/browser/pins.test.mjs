// What people choose for their profile and timeline: pinned posts, the list of media, mutes that end by themselves.

import assert from "node:assert/strict";
import { test } from "node:test";

import { inspect } from "./inspect.mjs";
import { go, idOf, shows, stage } from "./people.mjs";

const ESCAPE = "\uE00C";
const DAY_MS = 86_400_000;

const as = (user, method, path, body) => scene.server.callAs(user, method, path, body);
const scene = stage({
  people: { ann: "Ann Arbor", bo: "Bo Diddley" },
  before: async ({ server }) => {
    for (const text of ["one", "two", "three", "four", "five", "six"]) await server.postOf("ann", `Number ${text}`);
    await as("bo", "PUT", "/users/ann/follow");
  },
});

const pinned = (browser) => browser.texts("[data-testid=pinned] [data-testid=post-body]");
const pinnedAre = (browser, wanted) =>
  browser.until(() => pinned(browser), (now) => String(now) === String(wanted), `pinned: ${wanted}`);
const visit = async (browser, path) => {
  await go(browser, "/explore");
  await go(browser, path);
  // Explore has the same posts.
  await browser.until(() => browser.texts("main h1"), ([title]) => title !== "Explore", "the view");
  if (path !== "/") await browser.sees("profile-name", "");
};
const menuOf = async (browser, text) => {
  const id = await idOf(browser, text);
  await browser.click(`[data-testid=posts] [data-id="${id}"] [data-testid=more]`);
};

test("a post is pinned, shown first to all who may see it, and unpinned", async () => {
  const { ann, bo } = scene;
  await visit(ann, "/user/ann");
  await menuOf(ann, "Number two");
  await ann.click("pin");
  await ann.sees("toast", "Pinned: it is first on your profile.");
  await pinnedAre(ann, ["Number two"]);
  await menuOf(ann, "Number five");
  await ann.click("pin");
  await pinnedAre(ann, ["Number five", "Number two"]);
  await visit(bo, "/user/ann");
  await pinnedAre(bo, ["Number five", "Number two"]);
  await bo.until(
    () => bo.texts("article [data-testid=post-body]"),
    (now) => now.length === 8,
    "they have their own place, too",
  );
  assert.equal(await bo.run(() => document.querySelector("[data-testid=pinned]").getAttribute("aria-label")), "Pinned");
  // The menu of the pinned post, and of others.
  await bo.click("[data-testid=pinned] [data-testid=more]");
  assert.ok(!(await bo.texts(".menu [role=menuitem]")).some((label) => /pin/i.test(label)), "not for others");
  await bo.press(ESCAPE);
  await ann.click("[data-testid=pinned] [data-testid=more]");
  await ann.click("unpin");
  await ann.sees("toast", "Unpinned.");
  await pinnedAre(ann, ["Number two"]);
  await ann.click("undo");
  await pinnedAre(ann, ["Number five", "Number two"]);
});

test("a pinned post is live: its text, its likes, and its end", async () => {
  const { ann, bo } = scene;
  const [id] = (await as("bo", "GET", "/users/ann")).pinned;
  await visit(bo, "/user/ann");
  await pinnedAre(bo, ["Number five", "Number two"]);
  await bo.click("[data-testid=pinned] [data-testid=like]");
  await bo.until(
    () => bo.run(() => document.querySelector("[data-testid=pinned] [data-testid=like]").getAttribute("aria-pressed")),
    (now) => now === "true",
    "liked",
  );
  await as("ann", "PATCH", `/posts/${id}`, { text: "Number five, mended" });
  await pinnedAre(bo, ["Number five, mended", "Number two"]);
  await as("ann", "DELETE", `/posts/${id}`);
  await pinnedAre(bo, ["Number two"]);
  await visit(ann, "/user/ann");
  await pinnedAre(ann, ["Number two"]);
});

test("more than five are not pinned, and the page says so", async () => {
  const { ann } = scene;
  await visit(ann, "/user/ann");
  await pinnedAre(ann, ["Number two"]);
  const { items } = await as("ann", "GET", "/users/ann/posts?limit=100");
  const five = items.map(({ id }) => id).slice(0, 5);
  await as("ann", "PATCH", "/users/me", { pinned: five });
  await visit(ann, "/user/ann");
  await ann.until(() => pinned(ann), (now) => now.length === 5, "five");
  const last = await ann.run((ids) => {
    const all = [...document.querySelectorAll("[data-testid=posts] article")].map((post) => Number(post.dataset.id));
    return all.find((id) => !ids.includes(id)) ?? null;
  }, five);
  const other = last ?? (await scene.server.postOf("ann", "The sixth")).id;
  await ann.click(`[data-testid=posts] [data-id="${other}"] [data-testid=more]`);
  await ann.click("pin");
  await ann.sees("toast", "A profile has at most 5 pinned posts. Unpin one first.");
  await as("ann", "PATCH", "/users/me", { pinned: [five[0]] });
});

test("the last pinned post is unpinned, too", async () => {
  const { ann } = scene;
  await visit(ann, "/user/ann");
  await ann.until(() => pinned(ann), (now) => now.length === 1, "one");
  const [body] = await pinned(ann);
  await ann.click("[data-testid=pinned] [data-testid=more]");
  await ann.click("unpin");
  await ann.sees("toast", "Unpinned.");
  await pinnedAre(ann, []);
  assert.deepEqual((await as("ann", "GET", "/users/ann")).pinned ?? [], []);
  await ann.click("undo");
  await pinnedAre(ann, [body]);
});

test("a profile lists the posts with pictures, and new ones as they come", async () => {
  const { ann, bo } = scene;
  const media = [{ type: "image", url: "/icon.svg", alt: "The mark" }];
  await as("ann", "POST", "/posts", { text: "With a picture", media });
  await visit(bo, "/user/ann");
  await bo.click("tab-media");
  assert.equal(await bo.run(() => location.pathname), "/user/ann/media");
  await shows(bo, ["With a picture"]);
  await scene.server.postOf("ann", "Words alone");
  await as("ann", "POST", "/posts", { text: "Another picture", media });
  await shows(bo, ["Another picture", "With a picture"]);
  await visit(ann, "/user/bo/media");
  await ann.sees("empty", "No pictures, videos or audio yet");
});

test("somebody is muted for a day, a week, or for good", async () => {
  const { bo } = scene;
  const mutes = async () => (await as("bo", "GET", "/accounts/export")).restrictions ?? [];
  for (const [span, days] of [["day", 1], ["week", 7], ["good", null]]) {
    await visit(bo, "/user/ann");
    await bo.click("relations");
    await bo.click("mute-for");
    assert.deepEqual(await bo.texts(".menu [role=menuitem]"), ["For a day", "For a week", "For good"]);
    const at = Date.now();
    await bo.click(`mute-${span}`);
    await bo.sees("toast", "Ann Arbor is muted.");
    const [{ until = null }] = await mutes();
    if (days === null) assert.equal(until, null);
    else assert.ok(Math.abs(until - at - days * DAY_MS) < 60_000, `${span}: ${until}`);
    await bo.click("undo");
    await bo.until(() => as("bo", "GET", "/users/ann"), ({ edges }) => !edges.muting, "taken back");
  }
  await visit(bo, "/");
  await scene.server.postOf("ann", "Too much");
  const id = await idOf(bo, "Too much");
  await bo.click(`[data-id="${id}"] [data-testid=more]`);
  await bo.click("mute-for");
  await bo.click("mute-day");
  await bo.sees("toast", "Ann Arbor is muted.");
  await bo.click("undo");
});

test("the profile fits, has no findings, and speaks Chinese", async () => {
  const { ann, bo } = scene;
  await visit(ann, "/user/ann");
  await ann.sees("pinned", "Pinned");
  await inspect(ann, "pinned");
  await go(bo, "/settings");
  await bo.click("choose-zh");
  await bo.sees("nav-home", "首页");
  await visit(bo, "/user/ann");
  await bo.sees("pinned", "置顶");
  await bo.sees("tab-media", "媒体");
});
