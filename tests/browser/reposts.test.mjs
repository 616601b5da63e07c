// Reposts and quotes: the button, who reposted a post, quotes and their drafts, detaching, lists, and settings.

import assert from "node:assert/strict";
import { test } from "node:test";

import { fits, inspect, PHONE, DESKTOP } from "./inspect.mjs";
import { createAccount, go, live, shows, stage } from "./people.mjs";

const ENTER = "\uE007";
const as = (user, method, path, body) => scene.server.callAs(user, method, path, body);
const scene = stage({
  people: { ann: "Ann Arbor", bo: "Bo Diddley" },
  before: async ({ server }) => {
    for (const [id, name] of [["cy", "Cy Twombly"], ["di", "Di Prima"], ["ed", "Ed Ruscha"]]) {
      await createAccount(server, id, name);
    }
    for (const user of ["bo", "di", "ed"]) await as("ann", "PUT", `/users/${user}/follow`);
  },
});

const post = async (user, text, more = {}) => (await as(user, "POST", "/posts", { text, ...more })).id;
const readPost = (user, id) => as(user, "GET", `/posts/${id}`);
const within = (id, name) => `[data-id="${id}"] [data-testid=${name}]`;
/** The attributes of a repost button, and its number. */
const button = (browser, id) =>
  browser.run((query) => {
    const found = document.querySelector(query);
    const attribute = (name) => found.getAttribute(name);
    return found && [attribute("aria-pressed"), attribute("aria-disabled"), found.textContent, attribute("aria-label")];
  }, within(id, "repost"));
const buttonIs = (browser, id, wanted) =>
  browser.until(() => button(browser, id), (now) => String(now) === String(wanted), `the button is ${wanted}`);
const passedIs = (browser, id, wanted) =>
  browser.until(
    () => browser.run((query) => {
      const found = document.querySelector(query);
      return found && !found.hidden ? found.textContent : "";
    }, within(id, "passed")),
    (now) => now === wanted,
    `reposted by ${wanted}`,
  );
const until = (browser, ask, what) => browser.until(ask, Boolean, what);
const choose = async (browser, id, item) => {
  await browser.click(within(id, "more"));
  await browser.click(item);
};
/** Opens a view anew. */
const visit = async (browser, path) => {
  await go(browser, path === "/explore" ? "/topics" : "/explore");
  await go(browser, path);
};

test("a repost is shown at once, pushed to followers, counted, and taken back", async () => {
  const { ann, bo } = scene;
  const id = await post("cy", "Lines on a blackboard");
  await go(bo, "/explore");
  await buttonIs(bo, id, ["false", "false", "", "Repost, 0 reposts"]);
  await bo.click(within(id, "repost"));
  await buttonIs(bo, id, ["true", "false", "1", "Undo repost, 1 repost"]);
  await bo.sees("toast", "Reposted to your followers.");
  await passedIs(ann, id, "Bo Diddley reposted");
  await shows(ann, ["Lines on a blackboard"]);
  await as("di", "PUT", `/posts/${id}/repost`);
  await passedIs(ann, id, "Bo Diddley and 1 other reposted");
  await as("ed", "PUT", `/posts/${id}/repost`);
  await passedIs(ann, id, "Bo Diddley and 2 others reposted");
  await shows(ann, ["Lines on a blackboard"]);
  await buttonIs(ann, id, ["false", "false", "3", "Repost, 3 reposts"]);
  await buttonIs(bo, id, ["true", "false", "3", "Undo repost, 3 reposts"]);
  // It is known after a reload, too.
  await bo.reload();
  await live(bo);
  await buttonIs(bo, id, ["true", "false", "3", "Undo repost, 3 reposts"]);
  await bo.click(within(id, "repost"));
  await buttonIs(bo, id, ["false", "false", "2", "Repost, 2 reposts"]);
  await passedIs(ann, id, "Di Prima and 1 other reposted");
  await bo.click("undo");
  await buttonIs(bo, id, ["true", "false", "3", "Undo repost, 3 reposts"]);
  await as("cy", "DELETE", `/posts/${id}`);
  await shows(ann, []);
});

test("likes, favourites and comments of a repost are those of the post", async () => {
  const { ann } = scene;
  const id = await post("cy", "Wilder shores");
  await as("ann", "PUT", `/posts/${id}/like`);
  await until(ann, async () => (await readPost("ann", id)).liked, "liked elsewhere");
  await as("bo", "PUT", `/posts/${id}/repost`);
  await passedIs(ann, id, "Bo Diddley reposted");
  // What is pushed does not say it: it is read.
  const pressed = (name) =>
    ann.run((query) => document.querySelector(query)?.getAttribute("aria-pressed"), within(id, name));
  await until(ann, async () => (await pressed("like")) === "true", "the like is known");
  await ann.click(within(id, "like"));
  await until(ann, async () => !(await readPost("ann", id)).liked, "not liked");
  await ann.click(within(id, "favourite"));
  await until(ann, async () => (await readPost("ann", id)).favourited, "a favourite");
  await ann.click(within(id, "comments"));
  await until(ann, () => ann.run((path) => location.pathname === path, `/post/${id}`), "the thread of the post");
  await ann.sees("thread", "Wilder shores");
  // Also by the address of the repost.
  const { items } = await as("ann", "GET", "/users/bo/posts");
  await visit(ann, `/post/${items[0].id}`);
  await ann.type("[data-testid=thread] textarea", "from the repost");
  await ann.click("[data-testid=thread] form button[type=submit]");
  await until(ann, async () => (await readPost("ann", id)).comments === 1, "a comment on the post");
  await go(ann, "/");
});

test("a post for followers is not reposted; what the server refuses is taken back", async () => {
  const { ann, bo } = scene;
  const closed = await post("di", "For my followers", { visibility: "followers" });
  const reason = "Only posts that everyone may see can be reposted";
  await buttonIs(ann, closed, ["false", "true", "", reason]);
  await ann.click(within(closed, "repost"));
  await ann.sees("toast", reason);
  await buttonIs(ann, closed, ["false", "true", "", reason]);
  const own = await post("ann", "Mine, for my followers", { visibility: "followers" });
  await buttonIs(ann, own, ["false", "false", "", "Repost, 0 reposts"]);
  const locked = await post("ed", "Soon behind a lock");
  await ann.sees("post-body", "Soon behind a lock");
  await as("ed", "PATCH", "/users/me", { locked: true });
  await ann.click(within(locked, "repost"));
  await ann.sees("toast", "You may not do this.");
  await buttonIs(ann, locked, ["false", "false", "", "Repost, 0 reposts"]);
  await as("ed", "PATCH", "/users/me", { locked: false });
  assert.equal((await readPost("ann", locked)).reposts, 0);

});

const card = (browser, name = "[data-testid=posts] [data-testid=quote]") => browser.texts(name);
const FORM = "[data-testid=compose-dialog]";

test("a quote is written in a dialog, kept as a draft, shown, and leads to its post", async () => {
  const { ann, bo } = scene;
  const id = await post("di", "Loba, part one");
  await ann.sees("post-body", "Loba, part one");
  await choose(ann, id, "quote-post");
  await ann.sees(`${FORM} [data-testid=quote]`, "Loba, part one");
  await ann.click(`${FORM} [data-testid=post-submit]`);
  await ann.sees(`${FORM} [data-testid=post-error]`, "Write something first.");
  await ann.type(`${FORM} textarea`, "Read this");
  await ann.reload();
  await live(ann);
  await go(ann, "/explore");
  await ann.press("n");
  await ann.sees(`${FORM} [data-testid=quote]`, "Di Prima @di");
  assert.equal(await ann.run((form) => document.querySelector(`${form} textarea`).value, FORM), "Read this");
  await ann.click(`${FORM} [data-testid=quote-remove]`);
  await until(ann, async () => (await card(ann, `${FORM} [data-testid=quote]`)).length === 0, "no quote");
  await ann.run((form) => document.querySelector(`${form} .dialog-head button`).click(), FORM);
  await go(ann, "/");
  await choose(ann, id, "quote-post");
  await ann.sees(`${FORM} [data-testid=quote]`, "Loba, part one");
  await ann.click(`${FORM} [data-testid=post-submit]`);
  await ann.sees("[data-testid=posts] [data-testid=quote]", "Loba, part one");
  await until(ann, async () => (await readPost("ann", id)).quotes === 1, "it is stored");
  const { items } = await as("ann", "GET", `/posts/${id}/quotes`);
  assert.deepEqual(items.map(({ text, quote }) => [text, quote.id]), [["Read this", id]]);
  await ann.run(() => document.querySelector("[data-testid=posts] [data-testid=quote]").focus());
  await ann.press(ENTER);
  await until(ann, () => ann.run((path) => location.pathname === path, `/post/${id}`), "the quoted post");
  await ann.sees("quotes", "1 quote");
  await ann.click("quotes");
  await ann.sees("post-body", "Read this");
  assert.equal(await ann.run(() => location.pathname), `/post/${id}/quotes`);
  await go(ann, "/");

});

test("a quote says what is not shown, and authors detach theirs", async () => {
  const { ann, bo } = scene;
  const [mine, gone] = [await post("bo", "By Bo"), await post("bo", "Gone soon")];
  const quote = await post("di", "On Bo", { quote: mine });
  const other = await post("di", "On another", { quote: gone });
  await ann.sees("quote", "By Bo");
  await as("bo", "DELETE", `/posts/${gone}`);
  await ann.sees(within(other, "quote"), "This post is not available.");
  await visit(ann, "/user/di");
  await ann.sees(within(other, "quote"), "This post is not available.");
  await visit(bo, `/post/${quote}`);
  await choose(bo, quote, "detach");
  await bo.click("detach");
  await bo.sees("toast", "Your post is detached from the quote.");
  await bo.sees("quote", "The author detached this quote.");
  await visit(ann, `/post/${quote}`);
  await ann.sees("quote", "The author detached this quote.");
  await ann.click(within(quote, "more"));
  assert.ok(!(await ann.texts(".menu [role=menuitem]")).some((label) => label.startsWith("Detach")), "not by others");
  await ann.press("\uE00C");
});

test("a thread lists who reposted it; a profile its reposts, which followers hide and show", async () => {
  const { ann } = scene;
  const id = await post("cy", "Cold Stream");
  await as("bo", "PUT", `/posts/${id}/repost`);
  await visit(ann, `/post/${id}`);
  await ann.sees("reposters", "1 repost");
  await as("di", "PUT", `/posts/${id}/repost`);
  await ann.sees("reposters", "2 reposts");
  await ann.click("reposters");
  await ann.sees("people-dialog", "Bo Diddley");
  await ann.sees("people-dialog", "Di Prima");
  await ann.run(() => document.querySelector("[data-testid=people-dialog] .dialog-head button").click());
  await visit(ann, "/");
  await passedIs(ann, id, "Bo Diddley and 1 other reposted");
  await choose(ann, id, "reposts_off");
  await ann.sees("toast", "Reposts by Bo Diddley are hidden.");
  await passedIs(ann, id, "Di Prima reposted");
  await visit(ann, "/user/bo/reposts");
  await ann.sees("post-body", "Cold Stream");
  await ann.sees("tab-reposts", "Reposts");
  await ann.click("relations");
  await ann.click("reposts_on");
  await until(ann, async () => !(await as("ann", "GET", "/users/bo")).edges.reposts_off, "shown again");
  await visit(ann, "/");
  await passedIs(ann, id, "Bo Diddley and 1 other reposted");
});

test("authors choose who quotes them, and are told of reposts and quotes", async () => {
  const { ann, bo } = scene;
  await visit(bo, "/settings");
  const isRead = () => bo.run(() => !document.querySelector("[data-testid=settings-quotable]").disabled);
  await until(bo, isRead, "it is read");
  await bo.run(() => {
    const select = document.querySelector("[data-testid=settings-quotable]");
    select.value = "nobody";
    select.dispatchEvent(new Event("change"));
  });
  await bo.sees("quotable-done", "Saved.");
  assert.equal((await as("bo", "GET", "/users/bo")).quotable, "nobody");
  await visit(bo, "/settings");
  const isKept = () => bo.run(() => document.querySelector("[data-testid=settings-quotable]").value === "nobody");
  await until(bo, isKept, "kept");
  const passed = await post("ann", "Pass it on");
  const quoted = await post("ann", "Quote it");
  await as("di", "PUT", `/posts/${passed}/repost`);
  const quote = await post("di", "I quote", { quote: quoted });
  await visit(ann, "/notifications");
  const of = (kind) => `[data-testid=notification][data-kind=${kind}]`;
  await ann.sees(of("repost"), "Di Prima reposted your post");
  await ann.sees(of("repost"), "Pass it on");
  await ann.sees(of("quote"), "Di Prima quoted your post");
  await ann.sees(of("quote"), "I quote");
  await ann.click(of("quote"));
  await until(ann, () => ann.run((path) => location.pathname === path, `/post/${quote}`), "the quote");
  await visit(ann, "/notifications");
  await ann.click(of("repost"));
  await until(ann, () => ann.run((path) => location.pathname === path, `/post/${passed}`), "the post");
  await visit(ann, "/settings/push");
  await ann.sees("label[for=push-repost]", "Reposts");
  await ann.sees("label[for=push-quote]", "Quotes");
});

test("a timeline with reposts and quotes fits, has no findings, and speaks Chinese", async () => {
  const { ann } = scene;
  const id = await post("cy", "The first part of the return from Parnassus, with a longer text that has several lines");
  for (const user of ["bo", "di"]) await as(user, "PUT", `/posts/${id}/repost`);
  await post("di", "This says it better than I could", { quote: id });
  const own = await post("cy", "Passed on by me");
  await as("ann", "PUT", `/posts/${own}/repost`);
  await visit(ann, "/");
  await passedIs(ann, id, "Bo Diddley and 1 other reposted");
  // One's own that was made elsewhere is known, too.
  await buttonIs(ann, own, ["true", "false", "1", "Undo repost, 1 repost"]);
  await inspect(ann, "reposts");
  await choose(ann, id, "quote-post");
  await ann.sees(`${FORM} [data-testid=quote]`, "Parnassus");
  await inspect(ann, "quoting");
  await ann.run((form) => document.querySelector(`${form} .dialog-head button`).click(), FORM);
  await go(ann, `/post/${id}`);
  await ann.sees("quotes", "1 quote");
  await inspect(ann, "thread-passed");
  await go(ann, "/user/bo/reposts");
  await ann.sees("post-body", "Parnassus");
  await inspect(ann, "profile-reposts");
  await go(ann, "/settings");
  await ann.click("choose-zh");
  await ann.sees("nav-home", "首页");
  await visit(ann, "/");
  await passedIs(ann, id, "Bo Diddley 和另外 1 人转发了");
  await ann.emulate({ ...PHONE });
  await fits(ann, "in Chinese");
  await ann.shot("reposts-chinese-phone");
  await ann.emulate(DESKTOP);
});
