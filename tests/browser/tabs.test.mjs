// One account in two tabs: notifications and the read marker are live in both. Signing out ends both.

import assert from "node:assert/strict";
import { test } from "node:test";

import { go, idOf, LIVE_MS, live, quiet, signIn, stage, write } from "./people.mjs";

let second;
const scene = stage({
  people: { ann: "Ann Arbor", bo: "Bo Diddley" },
  before: async ({ driver, server }) => {
    second = await driver.browser();
    await second.open(server.origin);
    await signIn(second, "ann");
    await live(second);
  },
  after: () => second?.close(),
});

/** The visible badges. */
const badge = (browser) => browser.texts("[data-testid=nav-notifications] [data-testid=badge]:not([hidden])");
const badges = (browser, wanted) =>
  browser.until(
    () => badge(browser),
    (now) => String(now) === wanted,
    `a badge of ${wanted}`,
    4 * LIVE_MS,
  );

test("a notification raises the badge in every tab; reading it in one lowers it in both", async () => {
  const { ann, bo } = scene;
  await write(ann, "Anybody there?");
  const id = await idOf(ann, "Anybody there?");
  await go(bo, `/post/${id}`);
  await bo.click("[data-testid=thread] [data-testid=like]");
  await bo.type("comment-text", "Here, @ann");
  await bo.click("comment-submit");
  for (const browser of [ann, second]) {
    await badges(browser, "2");
    await browser.until(
      () => browser.run(() => document.title),
      (now) => now === "(2) Home · Feedline",
      "a title",
    );
  }
  await ann.click("nav-notifications");
  await ann.sees("notification", "Bo Diddley liked your post");
  await ann.sees("notification", "Bo Diddley commented on your post");
  await ann.sees("excerpt", "Anybody there?");
  assert.deepEqual(
    await ann.run(() =>
      [...document.querySelectorAll("[data-testid=notification]")].map(({ dataset }) => [
        "above" in dataset,
        "below" in dataset,
      ]),
    ),
    [
      [false, true],
      [true, false],
    ],
    "the rail joins the notifications of one post",
  );
  await ann.click("mark-read");
  for (const browser of [ann, second]) await badges(browser, "");
  await ann.click('[data-testid=notification][data-kind="comment"]');
  await ann.sees("comment-text-shown", "Here, @ann");
});

test("a like in one tab fills the heart in the other, and so does one over HTTP", async () => {
  const { server, ann } = scene;
  const { id } = await server.postOf("bo", "Like me in two tabs");
  const heart = `[data-testid=thread] [data-id="${id}"] [data-testid=like]`;
  const shows = (browser, wanted) =>
    browser.until(
      () => browser.run((name) => document.querySelector(name)?.getAttribute("aria-pressed"), heart),
      (now) => now === String(wanted),
      `a heart that is ${wanted}`,
      LIVE_MS,
    );
  for (const browser of [ann, second]) {
    await go(browser, `/post/${id}`);
    await shows(browser, false);
  }
  await ann.click(heart);
  for (const browser of [ann, second]) await shows(browser, true);
  await server.callAs("ann", "DELETE", `/posts/${id}/like`);
  for (const browser of [ann, second]) await shows(browser, false);
});

test("a like while a tab is offline fills the heart when it is back", async () => {
  const { server, ann } = scene;
  const { id } = await server.postOf("ann", "Liked elsewhere");
  const heart = `[data-id="${id}"] [data-testid=like]`;
  const pressed = () => ann.run((name) => document.querySelector(name)?.getAttribute("aria-pressed"), heart);
  await ann.click("nav-home");
  await ann.until(pressed, (now) => now === "false", "the post");
  await ann.run(() => dispatchEvent(new Event("offline")));
  await server.callAs("ann", "PUT", `/posts/${id}/like`);
  await ann.until(() => server.callAs("ann", "GET", `/posts/${id}`), ({ liked }) => liked, "the like is settled");
  await ann.run(() => dispatchEvent(new Event("online")));
  await ann.until(pressed, (now) => now === "true", "the heart is filled");
});

test("unread posts put a dot on Home in every tab, and a mark shows how far was read", async () => {
  const { server, ann } = scene;
  const dots = (browser, wanted) =>
    browser.until(
      () => browser.texts("[data-testid=nav-home] [data-testid=unread]:not([hidden])"),
      (now) => now.join() === wanted,
      `a dot of ${wanted}`,
      4 * LIVE_MS,
    );
  await server.callAs("ann", "PUT", "/users/bo/follow");
  await ann.click("nav-home");
  await ann.sees("post-body", "Like me in two tabs");
  await dots(ann, "");
  for (const browser of [ann, second]) await go(browser, "/settings");
  for (const text of ["unread one", "unread two"]) await server.postOf("bo", text);
  for (const browser of [ann, second]) await dots(browser, "2 unread posts");
  await second.click("nav-home");
  await second.sees("read-mark", "You read up to here.");
  const above = () =>
    second.run(() => {
      const mark = document.querySelector("[data-testid=read-mark]");
      const posts = [...document.querySelectorAll("[data-testid=post]")];
      const before = (post) => post.compareDocumentPosition(mark) & Node.DOCUMENT_POSITION_FOLLOWING;
      return posts.filter(before).map((post) => post.querySelector("[data-testid=post-body]").textContent);
    });
  assert.deepEqual(await above(), ["unread two", "unread one"]);
  await second.shot("read-mark");
  for (const browser of [ann, second]) await dots(browser, "");
  await ann.click("nav-home");
  await ann.sees("post-body", "unread two");
  // A mark that slides out is not shown any more.
  const marks = (browser) => browser.texts("[data-testid=read-mark]:not([data-leaving])");
  const noMark = (browser, why) => browser.until(() => marks(browser), (now) => now.length === 0, why, LIVE_MS);
  await noMark(ann, "it was read in the other tab");
  await server.postOf("bo", "watched");
  await ann.sees("post-body", "watched", LIVE_MS);
  assert.deepEqual(await marks(ann), [], "what comes in while one looks on needs no mark");
  await second.click("nav-settings");
  await second.click("nav-home");
  await noMark(second, "another visit begins");
});

test("signing out everywhere ends the other tab, with a notice", async () => {
  const { ann } = scene;
  await ann.click("nav-settings");
  await ann.click("sign-out-everywhere");
  await ann.click("confirm");
  await ann.sees("gate-error", "You are signed out everywhere.");
  await second.sees("gate-error", "Your session has ended. Sign in again.", LIVE_MS);
  await quiet(second);
});

test("a new tab is signed in, or has another account; signing out ends all tabs of an account", async () => {
  const { server, ann } = scene;
  const [first] = await ann.call("GET", "/window/handles");
  const signedIn = () => ann.run(() => document.querySelector("[data-testid=me]")?.textContent ?? "");
  const tab = async () => {
    const { handle } = await ann.call("POST", "/window/new", { type: "tab" });
    await ann.call("POST", "/window", { handle });
    await ann.open(`${server.origin}/`);
    return handle;
  };
  if (!(await signedIn())) await ann.open(`${server.origin}/sign-in`).then(() => signIn(ann, "ann"));
  await live(ann);
  const second = await tab();
  await live(ann);
  assert.match(await signedIn(), /@ann/);
  const third = await tab();
  await live(ann);
  await ann.click("me");
  await ann.click("account-other");
  await ann.sees("gate-join", "Continue as");
  await signIn(ann, "bo");
  await live(ann);
  assert.match(await signedIn(), /@bo/);
  await ann.reload();
  await live(ann);
  assert.match(await signedIn(), /@bo/, "the account of the tab outlives a reload");
  await ann.call("POST", "/window", { handle: second });
  assert.match(await signedIn(), /@ann/);
  await ann.click("me");
  await ann.click("sign-out");
  await ann.sees("gate-submit", "Sign in");
  await ann.call("POST", "/window", { handle: first });
  await ann.sees("gate-submit", "Sign in");
  await signIn(ann, "ann");
  await live(ann);
  await ann.call("POST", "/window", { handle: second });
  await live(ann);
  assert.match(await signedIn(), /@ann/, "a tab at the gate follows");
  await ann.call("POST", "/window", { handle: third });
  assert.match(await signedIn(), /@bo/);
});
