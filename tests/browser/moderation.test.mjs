// The view of moderators: the API key, reports and their objects, removals and suspensions.

import assert from "node:assert/strict";
import { test } from "node:test";

import { inspect } from "./inspect.mjs";
import { createAccount, go, live, quiet, stage } from "./people.mjs";

const ESCAPE = "\uE00C";

const posts = {};
let comment;
const scene = stage({
  people: { ann: "Ann Arbor", bo: "Bo Diddley" },
  before: async ({ server }) => {
    await createAccount(server, "cy", "Cy Young");
    for (const name of ["spam", "abuse", "quiet", "kept"]) posts[name] = await server.postOf("bo", `This is ${name}`);
    posts.followers = await as("bo", "POST", "/posts", { text: "For a few", visibility: "followers" });
    comment = await as("bo", "POST", `/posts/${posts.quiet.id}/comments`, { text: "A rude comment" });
    await as("cy", "PUT", "/users/bo/follow");
  },
});

const as = (user, method, path, body) => scene.server.callAs(user, method, path, body);
const report = (user, body) => as(user, "POST", "/reports", { reason: "spam", ...body });

/** A call of the backend for itself. */
async function backend(method, path) {
  const headers = { "x-api-key": scene.server.apiKey };
  const response = await fetch(`${scene.server.origin}/api/v1${path}`, { method, headers });
  return { status: response.status, body: await response.json() };
}

const isSeen = async (path) => (await backend("GET", path)).status === 200;

const fill = async (browser, name, text) => {
  await browser.sees(name, "");
  await browser.run((id) => (document.querySelector(`[data-testid=${id}]`).value = ""), name);
  if (text) await browser.type(name, text);
};

async function enter(browser, key = scene.server.apiKey) {
  await fill(browser, "moderation-key", key);
  await browser.click("moderation-enter");
}

const at = async (browser) => {
  await go(browser, "/");
  await go(browser, "/moderation");
};
const row = (one) => `[data-report="${one.id}"]`;
const rows = (browser) =>
  browser.run(() => [...document.querySelectorAll("[data-testid=reports] article")].map((one) => one.dataset.report));

test("the key is asked for, a wrong one is refused, and it is forgotten on demand", async () => {
  const { ann } = scene;
  scene.expected = ["the server responded with a status of 401"];
  await go(ann, "/moderation");
  await ann.sees("main h1", "Moderation");
  assert.equal(await ann.run(() => document.querySelector("[data-testid=moderation-key]").type), "password");
  await ann.click("moderation-enter");
  await ann.sees("moderation-error", "Enter the API key.");
  for (const wrong of ["not-the-key", "密钥"]) {
    await enter(ann, wrong);
    await ann.sees("moderation-error", "The server does not accept this key.");
  }
  await enter(ann);
  await ann.sees("reports", "No open reports");
  const has = (key) => [localStorage, sessionStorage].map((one) => JSON.stringify(one).includes(key));
  const stored = () => ann.run(has, scene.server.apiKey);
  assert.deepEqual(await stored(), [false, true]);
  // It is there after a change of the view, and in no address.
  await at(ann);
  await ann.sees("reports", "No open reports");
  assert.ok(!(await ann.run(() => location.href)).includes(scene.server.apiKey));
  await ann.click("moderation-forget");
  await ann.sees("moderation-enter", "Continue");
  assert.deepEqual(await stored(), [false, false]);
  await at(ann);
  await ann.sees("moderation-enter", "Continue");
});

test("requests have the key alone, and nothing else of the page has it", async () => {
  const { ann } = scene;
  await at(ann);
  await ann.run(() => {
    window.asked = [];
    const { fetch } = window;
    window.fetch = (url, options) => {
      window.asked.push([url, Object.keys(options.headers).sort()]);
      return fetch(url, options);
    };
  });
  await enter(ann);
  await ann.sees("reports", "No open reports");
  const asked = await ann.run(() => window.asked);
  assert.ok(asked.length >= 2);
  for (const [url, headers] of asked) {
    assert.match(url, /^\/api\/v1\/reports\?/);
    assert.deepEqual(headers, ["x-api-key"]);
  }
});

test("open reports are listed, with what is reported and who did", async () => {
  const { ann } = scene;
  const user = await report("cy", { user: "bo", reason: "other" });
  const first = await report("cy", { post: posts.spam.id, text: "Look at <b>this</b>" });
  const second = await report("cy", { comment: comment.id, reason: "abuse" });
  const third = await report("cy", { post: posts.followers.id, reason: "illegal" });
  await at(ann);
  await ann.until(() => rows(ann), (now) => now.length === 4, "four reports");
  assert.deepEqual(await rows(ann), [third, second, first, user].map(({ id }) => String(id)));
  await ann.sees(row(first), "Spam");
  await ann.sees(row(first), "reported by @cy");
  await ann.sees(row(first), "Look at <b>this</b>");
  await ann.sees(row(first), "This is spam");
  await ann.sees(row(first), "Bo Diddley");
  await ann.sees(row(second), "A rude comment");
  await ann.sees(row(second), "Abuse or harassment");
  await ann.sees(row(user), "User bo");
  // A key reads what is public.
  await ann.sees(row(third), "An API key cannot read it");
  await ann.sees(row(third), "By @bo.");
  const href = (selector) => ann.run((one) => document.querySelector(one).getAttribute("href"), selector);
  assert.equal(await href(`${row(second)} a.meta`), `/post/${posts.quiet.id}?comment=${comment.id}`);
});

test("a post is removed with a reason, the report is closed, and the removal taken back", async () => {
  const { ann } = scene;
  const [again] = [await report("ann", { post: posts.spam.id, reason: "illegal" })];
  await at(ann);
  const { body } = await backend("GET", "/reports");
  const first = body.items.find((one) => one.post === posts.spam.id && one.reporter === "cy");
  await ann.click(`${row(first)} [data-testid=moderate-remove]`);
  await ann.sees("dialog[open]", "Nobody but its author will see it.");
  await ann.type("moderate-reason", "sells sugar");
  await ann.click("confirm");
  await ann.sees(`${row(first)} [data-testid=moderated-status]`, "Removed.");
  // Both reports of the post are closed.
  await ann.sees(`${row(again)} [data-testid=moderated-status]`, "Closed with the other report.");
  assert.equal(await isSeen(`/posts/${posts.spam.id}`), false);
  assert.equal((await as("bo", "GET", `/posts/${posts.spam.id}`)).removed.reason, "sells sugar");
  const focused = () => ann.run(() => document.activeElement.dataset.report);
  await ann.until(focused, (now) => now && now !== String(first.id), "the next report has the focus");
  assert.deepEqual(await ann.texts(`${row(first)} button`), ["Restore"]);
  const open = (await backend("GET", "/reports")).body.items.map(({ id }) => id);
  assert.ok(!open.includes(first.id) && !open.includes(again.id));
  await ann.click(`${row(first)} [data-testid=moderate-restore]`);
  await ann.sees(`${row(first)} [data-testid=moderated-status]`, "Restored.");
  assert.equal(await isSeen(`/posts/${posts.spam.id}`), true);
});

test("a comment is removed, and a report is closed without action", async () => {
  const { ann } = scene;
  await at(ann);
  const { items } = (await backend("GET", "/reports")).body;
  const ofComment = items.find((one) => one.comment);
  const ofFollowers = items.find((one) => one.post === posts.followers.id);
  await ann.click(`${row(ofComment)} [data-testid=moderate-remove]`);
  await ann.sees("dialog[open]", "Replies stay.");
  await ann.click("confirm");
  await ann.sees(`${row(ofComment)} [data-testid=moderated-status]`, "Removed.");
  assert.equal((await backend("GET", `/comments/${comment.id}`)).body.text, undefined);
  await ann.click(`${row(ofFollowers)} [data-testid=moderate-none]`);
  await ann.sees(`${row(ofFollowers)} [data-testid=moderated-status]`, "Closed without action.");
  const focused = () => ann.run(() => document.activeElement.dataset.report);
  await ann.until(focused, (now) => now && now !== String(ofFollowers.id), "the next report has the focus");
  await ann.run(() => scrollTo(0, 0));
  await ann.click("reports-false");
  await ann.sees(`${row(ofFollowers)} [data-testid=report-ended]`, "without action");
  await ann.sees(`${row(ofComment)} [data-testid=report-ended]`, "removed");
  assert.ok(!(await ann.texts(`${row(ofComment)} button`)).includes("Close without action"));
  // From a report that is closed, too.
  await ann.click(`${row(ofComment)} [data-testid=moderate-restore]`);
  await ann.sees(`${row(ofComment)} [data-testid=moderated-status]`, "Restored.");
  assert.equal((await backend("GET", `/comments/${comment.id}`)).body.text, "A rude comment");
  await ann.run(() => scrollTo(0, 0));
  await ann.click("reports-true");
  await ann.until(() => rows(ann), (now) => now.length === 1, "one open report");
});

test("a user is limited or suspended, with an end, and taken back", async () => {
  const { ann } = scene;
  await at(ann);
  const [ofUser] = (await backend("GET", "/reports")).body.items;
  assert.equal(ofUser.user, "bo");
  await ann.click(`${row(ofUser)} [data-testid=moderate-suspend]`);
  await ann.sees("dialog[open]", "Suspend @bo");
  const set = (value) => ann.run((text) => (document.querySelector("[data-testid=moderate-end]").value = text), value);
  await set("2020-01-01T00:00");
  await ann.click("confirm");
  await ann.sees("confirm-error", "The end must be a time in the future.");
  await set("2990-01-01T00:00");
  await ann.type("moderate-reason", "third time");
  await ann.click("confirm");
  await ann.sees(`${row(ofUser)} [data-testid=moderated-status]`, "@bo is suspended.");
  assert.equal(await isSeen("/users/bo"), false);
  await ann.click(`${row(ofUser)} [data-testid=moderate-unsuspend]`);
  await ann.sees(`${row(ofUser)} [data-testid=moderated-status]`, "@bo is not suspended or limited.");
  assert.equal(await isSeen("/users/bo"), true);
  await ann.click("reports-false");
  await ann.sees(`${row(ofUser)} [data-testid=report-ended]`, "suspended");
});

test("a post, a comment and a user are acted on by their ids, without a report", async () => {
  const { ann } = scene;
  scene.expected = ["the server responded with a status of 404"];
  await at(ann);
  await ann.sees("direct-show", "Show");
  const look = async (kind, id) => {
    await ann.run((value) => (document.querySelector("[data-testid=direct-kind]").value = value), kind);
    await fill(ann, "direct-id", String(id));
    await ann.click("direct-show");
  };
  const card = ".settings [data-testid=report-row]";
  const buttons = () => ann.texts(`${card} button`);
  await look("post", "nonsense");
  await ann.sees("direct-error", "Enter the id");
  await look("post", posts.kept.id);
  await ann.sees(card, "This is kept");
  assert.deepEqual(await buttons(), ["Remove post", "Restore", "Suspend @bo", "Unsuspend"]);
  await ann.click(`${card} [data-testid=moderate-remove]`);
  await ann.click("confirm");
  await ann.sees(card, "Removed.");
  assert.equal(await isSeen(`/posts/${posts.kept.id}`), false);
  // Now it cannot be read, and can be restored nevertheless.
  await look("post", posts.kept.id);
  await ann.sees(card, "An API key cannot read it");
  assert.deepEqual(await buttons(), ["Remove post", "Restore"]);
  await ann.click(`${card} [data-testid=moderate-restore]`);
  await ann.sees(card, "Restored.");
  assert.equal(await isSeen(`/posts/${posts.kept.id}`), true);
  await look("comment", comment.id);
  await ann.sees(card, "A rude comment");
  await look("user", "@bo");
  await ann.sees(card, "Bo Diddley");
  await ann.click(`${card} [data-testid=moderate-suspend]`);
  await ann.click("limited");
  await ann.click("confirm");
  await ann.sees(card, "@bo is limited.");
  await ann.click(`${card} [data-testid=moderate-unsuspend]`);
  await ann.sees(card, "not suspended or limited");
  await look("user", "nobody-of-that-name");
  await ann.sees(card, "An API key cannot read it");
  await ann.click(`${card} [data-testid=moderate-unsuspend]`);
  await ann.sees(`${card} [data-testid=moderated-error]`, "This does not exist");
});

test("older reports come page by page", async () => {
  const { ann, server } = scene;
  for (let n = 0; n < 25; n += 1) {
    const post = await server.postOf("bo", `Of many ${n}`);
    await report("cy", { post: post.id });
  }
  await at(ann);
  await ann.until(() => rows(ann), (now) => now.length === 20, "a page");
  await ann.click("more-rows");
  await ann.until(() => rows(ann), (now) => now.length === 25, "the next one");
  await ann.sees("report-row", "Of many 0");
});

test("a key that is no longer accepted is asked for again", async () => {
  const { ann } = scene;
  scene.expected = ["the server responded with a status of 401"];
  await at(ann);
  await ann.sees("report-row", "Of many 24");
  await ann.run(() => {
    const kept = JSON.parse(sessionStorage.getItem("feedline.moderation"));
    sessionStorage.setItem("feedline.moderation", JSON.stringify({ ...kept, key: "revoked" }));
  });
  await ann.click("[data-testid=report-row] [data-testid=moderate-remove]");
  await ann.click("confirm");
  await ann.sees("moderation-error", "The server does not accept this key.");
  const focused = () => ann.run(() => document.activeElement.dataset.testid);
  await ann.until(focused, (now) => now === "moderation-key", "the field has the focus");
  assert.equal(await ann.run(() => document.querySelector("dialog")), null);
  assert.equal(await ann.run(() => sessionStorage.getItem("feedline.moderation")), null);
  await enter(ann);
  await ann.sees("report-row", "Of many 24");
});

test("errors of the server are said beside the report", async () => {
  const { ann } = scene;
  scene.expected = ["the server responded with a status of 503"];
  await at(ann);
  await ann.sees("report-row", "Of many 24");
  await ann.run(() => {
    const { fetch } = window;
    window.fetch = (url, options) =>
      options.method === "PUT" ? Promise.resolve(new Response("{}", { status: 503 })) : fetch(url, options);
    window.mend = () => (window.fetch = fetch);
  });
  await ann.click("[data-testid=report-row] [data-testid=moderate-none]");
  await ann.sees("moderated-error", "The server has a problem.");
  await ann.click("[data-testid=report-row] [data-testid=moderate-remove]");
  await ann.type("moderate-reason", "kept");
  await ann.click("confirm");
  await ann.sees("confirm-error", "The server has a problem.");
  assert.equal(await ann.run(() => document.querySelector("[data-testid=moderate-reason]").value), "kept");
  await ann.run(() => window.mend());
  await ann.click("confirm");
  await ann.sees("moderated-status", "Removed.");
});

test("the view fits, has no findings in both themes, and speaks Chinese", async () => {
  const { ann } = scene;
  const states = {
    key: async () => {
      await ann.click("moderation-forget");
      await ann.sees("moderation-enter", "");
    },
    reports: async () => {
      await enter(ann);
      await ann.sees("report-row", "Of many 20");
      await fill(ann, "direct-id", String(comment.id));
      await ann.run(() => (document.querySelector("[data-testid=direct-kind]").value = "comment"));
      await ann.click("direct-show");
      await ann.sees("report-row", "A rude comment");
    },
    suspend: async () => {
      await ann.click(".settings [data-testid=moderate-suspend]");
      await ann.sees("dialog[open]", "How far?");
    },
  };
  await at(ann);
  for (const [name, reach] of Object.entries(states)) {
    await reach();
    await inspect(ann, `moderation-${name}`);
  }
  await ann.press(ESCAPE);
  await go(ann, "/settings");
  await ann.click("choose-zh");
  await ann.sees("nav-home", "首页");
  await go(ann, "/moderation");
  await ann.sees("reports", "移除帖子");
  await ann.sees("reports", "举报人：@cy");
  await go(ann, "/settings");
  await ann.click("choose-en");
});

test("the address opens the view", async (context) => {
  const { ann, server } = scene;
  const { status } = await fetch(`${server.origin}/moderation`);
  if (status === 404) return context.skip("the server does not know the address");
  await ann.open(`${server.origin}/moderation`);
  await live(ann);
  await ann.sees("report-row", "Of many 20");
});

test("moderators need no account", async () => {
  const { driver, server } = scene;
  const browser = await driver.browser();
  try {
    await browser.open(`${server.origin}/sign-in`);
    await browser.sees("gate-submit", "Sign in");
    await go(browser, "/moderation");
    await browser.sees("main h1", "Moderation");
    await enter(browser);
    await browser.sees("report-row", "Of many 20");
    await browser.click("[data-testid=report-row] [data-testid=moderate-none]");
    await browser.sees("moderated-status", "Closed without action.");
    await inspect(browser, "moderation-alone");
    await browser.run(() => history.back());
    await browser.sees("gate-submit", "Sign in");
    await quiet(browser);
  } finally {
    await browser.close();
  }
});

test("who signs in next does not have the key", async () => {
  const { ann } = scene;
  await at(ann);
  await ann.sees("report-row", "Of many 20");
  await ann.click("me");
  await ann.click("sign-out");
  await ann.sees("gate-submit", "Sign in");
  await ann.type("user", "cy");
  await ann.type("password", "correct horse battery");
  await ann.click("gate-submit");
  await live(ann);
  await go(ann, "/moderation");
  await ann.sees("moderation-enter", "Continue");
});
