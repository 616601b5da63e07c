// One account in two tabs: notifications and the read marker are live in both. Signing out ends both.

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
  await ann.click("mark-read");
  for (const browser of [ann, second]) await badges(browser, "");
  await ann.click('[data-testid=notification][data-kind="comment"]');
  await ann.sees("comment-text-shown", "Here, @ann");
});

test("a like in one tab fills the heart in the other tabs of the browser", async () => {
  const { server, bo } = scene;
  const { id } = await server.postOf("ann", "Like me in two tabs");
  const heart = `[data-id="${id}"] [data-testid=like]`;
  const pressed = () => bo.run((name) => document.querySelector(name)?.getAttribute("aria-pressed"), heart);
  await go(bo, "/user/ann");
  await bo.until(pressed, (now) => now === "false", "the post");
  const session = await bo.run(() => Object.entries(sessionStorage));
  // The picture's address has no icon.
  scene.expected = ["/favicon.ico"];
  const first = await bo.call("GET", "/window");
  const { handle } = await bo.call("POST", "/window/new", { type: "tab" });
  await bo.call("POST", "/window", { handle });
  await bo.open(`${server.origin}/icon.svg`);
  await bo.run((entries) => entries.forEach(([key, value]) => sessionStorage.setItem(key, value)), session);
  await bo.open(`${server.origin}/post/${id}`);
  await bo.click(heart);
  await bo.until(pressed, (now) => now === "true", "liked");
  await bo.until(() => bo.run((name) => document.querySelector(name).dataset.state, heart), (now) => now === "settled");
  await bo.call("DELETE", "/window");
  await bo.call("POST", "/window", { handle: first });
  await bo.until(pressed, (now) => now === "true", "filled in the first tab");
});

test("a like of another device fills the heart when one looks at the post again", async () => {
  const { server, ann } = scene;
  const { id } = await server.postOf("ann", "Liked elsewhere");
  const heart = `[data-id="${id}"] [data-testid=like]`;
  const pressed = () => ann.run((name) => document.querySelector(name)?.getAttribute("aria-pressed"), heart);
  await ann.click("nav-home");
  await ann.until(pressed, (now) => now === "false", "the post");
  await ann.click("nav-settings");
  await server.callAs("ann", "PUT", `/posts/${id}/like`);
  await ann.until(() => server.callAs("ann", "GET", `/posts/${id}`), ({ liked }) => liked, "the like is settled");
  await ann.click("nav-home");
  await ann.until(pressed, (now) => now === "true", "the heart is filled");
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
