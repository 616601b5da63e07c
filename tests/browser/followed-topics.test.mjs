// Followed topics: the button of a topic, the line above the posts that a topic brings, and the index of topics.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { DESKTOP, fits, inspect, PHONE } from "./inspect.mjs";
import { createAccount, go, idOf, live, quiet, setOffline, shows, signIn, stage, state } from "./people.mjs";

const ENTER = "\uE007";
const ESCAPE = "\uE00C";
const SPACE = "\uE00D";
const TAB = "\uE004";
const UNREACHABLE = ["WebSocket connection to", "ERR_INTERNET_DISCONNECTED"];
const MAX_TOPICS = 100;
const LONG = "incomprehensibilities".repeat(4);
const as = (user, method, path, body) => scene.server.callAs(user, method, path, body);

/** A second window of the same reader. */
let home;
const scene = stage({
  people: { ann: "Ann Arbor" },
  before: async ({ server, driver }) => {
    for (const [id, name] of [["bo", "Bo Diddley"], ["cy", "Cy Twombly"]]) await createAccount(server, id, name);
    await as("ann", "PUT", "/users/bo/follow");
    home = await driver.browser();
    await home.open(server.origin);
    await signIn(home, "ann");
    await live(home);
  },
  after: () => home?.close(),
});
afterEach(() => home && quiet(home));

const post = async (user, text) => (await as(user, "POST", "/posts", { text })).id;
const followed = async () => (await as("ann", "GET", "/topics/followed")).items.map(({ name }) => name);
const follow = (name) => as("ann", "PUT", `/topics/${encodeURIComponent(name)}/follow`);
const unfollowAll = async () => {
  for (const name of await followed()) await as("ann", "DELETE", `/topics/${encodeURIComponent(name)}/follow`);
};
const followedAre = (wanted) =>
  scene.ann.until(followed, (now) => String(now) === String(wanted), `followed topics ${wanted}`);
const BUTTON = "[data-testid=follow-topic]:not([hidden])";
/** The text, the name and the state of the button of the topic that is shown. */
const button = (browser) =>
  browser.run((query) => {
    const found = document.querySelector(query);
    return found && [found.textContent, found.ariaLabel, found.ariaPressed].join("|");
  }, BUTTON);
const buttonIs = (browser, wanted) => browser.until(() => button(browser), (now) => now === wanted, `button ${wanted}`);
const ON = "Following|Following #moss|true";
const OFF = "Follow|Follow #moss|false";
/** The line above a post; none: empty. */
const via = (browser, id) =>
  browser.run((wanted) => {
    const line = document.querySelector(`[data-id="${wanted}"] [data-testid=via]`);
    return line && !line.hidden ? line.textContent : "";
  }, id);
const viaIs = (browser, id, wanted) => browser.until(() => via(browser, id), (now) => now === wanted, `line ${wanted}`);
const focused = (browser) => browser.run(() => document.activeElement.ariaLabel ?? document.activeElement.textContent);
/** Opens a view anew. */
const visit = async (browser, path) => {
  await go(browser, "/explore");
  await go(browser, path);
};

test("a topic is followed in one tab: its posts come into Home in the other, below a line that says so", async () => {
  const { ann } = scene;
  await post("bo", "Bo on #moss");
  await post("cy", "Cy on #moss, earlier");
  await shows(home, ["Bo on #moss"]);
  await go(ann, "/topic/Moss");
  await buttonIs(ann, OFF);
  await ann.click("follow-topic");
  await buttonIs(ann, ON);
  await followedAre(["moss"]);
  await shows(home, ["Cy on #moss, earlier", "Bo on #moss"]);
  const id = await post("cy", "Cy on #moss");
  await shows(home, ["Cy on #moss", "Cy on #moss, earlier", "Bo on #moss"]);
  await viaIs(home, id, "In #moss");
  assert.equal(await via(home, await idOf(home, "Bo on #moss")), "", "Bo is followed");
  assert.deepEqual(await home.run(() => [...document.querySelectorAll("[data-testid=via] a")].map((a) => a.pathname)), [
    "/topic/moss",
    "/topic/moss",
  ]);
  await post("cy", "Cy on tea");
  await as("cy", "PATCH", `/posts/${id}`, { text: "Cy on #moss, edited" });
  await shows(home, ["Cy on #moss, edited", "Cy on #moss, earlier", "Bo on #moss"]);
  await viaIs(home, id, "In #moss");
  await home.click(`[data-id="${id}"] [data-testid=via] a`);
  await home.sees("#title", "#moss");
  await buttonIs(home, ON);
  await home.run(() => history.back());
  await home.reload();
  await shows(home, ["Cy on #moss, edited", "Cy on #moss, earlier", "Bo on #moss"]);
  await viaIs(home, id, "In #moss");
});

test("the button shows after a reload what is so, and works with the keyboard", async () => {
  const { ann } = scene;
  await ann.reload();
  await buttonIs(ann, ON);
  await ann.run(() => document.querySelector("[data-testid=add-to-lists]").focus());
  await ann.press(TAB);
  assert.equal(await focused(ann), "Following #moss");
  await ann.press(ENTER);
  await buttonIs(ann, OFF);
  await ann.sees("toast", "You no longer follow #moss.");
  assert.equal(await focused(ann), "Follow #moss");
  await shows(home, ["Bo on #moss"]);
  await ann.press(SPACE);
  await buttonIs(ann, ON);
  // What can no longer be taken back is not offered.
  await ann.until(() => ann.texts("#toast"), ([text]) => text === "", "no toast");
  await shows(home, ["Cy on #moss, edited", "Cy on #moss, earlier", "Bo on #moss"]);
  await ann.click("follow-topic");
  await shows(home, ["Bo on #moss"]);
  await ann.click("undo");
  await ann.sees("toast", "Done.");
  await buttonIs(ann, ON);
  await followedAre(["moss"]);
  await shows(home, ["Cy on #moss, edited", "Cy on #moss, earlier", "Bo on #moss"]);
});

test("the menu of a post unfollows the topic that brought it, with a way back", async () => {
  const id = await idOf(home, "Cy on #moss, edited");
  await home.click(`[data-id="${id}"] [data-testid=more]`);
  await home.sees("unfollow-topic", "Unfollow #moss");
  assert.deepEqual(await home.texts("unfollow"), [], "its author is not followed");
  await home.click("unfollow-topic");
  await home.sees("toast", "You no longer follow #moss.");
  await shows(home, ["Bo on #moss"]);
  await followedAre([]);
  await home.click("undo");
  await shows(home, ["Cy on #moss, edited", "Cy on #moss, earlier", "Bo on #moss"]);
  await viaIs(home, id, "In #moss");
  await followedAre(["moss"]);
  const own = await idOf(home, "Bo on #moss");
  await home.click(`[data-id="${own}"] [data-testid=more]`);
  await home.sees("unfollow", "Unfollow Bo Diddley");
  assert.deepEqual(await home.texts("unfollow-topic"), [], "no topic brought it");
  await home.press(ESCAPE);
});

test("the line goes when the author is followed, and comes back", async () => {
  const id = await idOf(home, "Cy on #moss, edited");
  await go(home, "/user/cy");
  await home.click("[data-testid=profile] [data-testid=follow]");
  await home.sees("[data-testid=profile] [data-testid=follow]", "Following");
  await home.click("nav-home");
  const all = ["Cy on tea", "Cy on #moss, edited", "Cy on #moss, earlier", "Bo on #moss"];
  await shows(home, all);
  await viaIs(home, id, "");
  await go(home, "/user/cy");
  await home.click("[data-testid=profile] [data-testid=follow]");
  await home.sees("toast", "You no longer follow Cy Twombly.");
  await home.click("nav-home");
  await shows(home, all.slice(1));
  await viaIs(home, id, "In #moss");
});

test("without a connection nothing changes, and the page says why; later it shows what others changed", async () => {
  const { ann } = scene;
  await buttonIs(ann, ON);
  scene.expected = UNREACHABLE;
  await setOffline(ann, true);
  await state(ann, "lost");
  await ann.click("follow-topic");
  await ann.sees("toast", "The server cannot be reached just now.");
  await buttonIs(ann, ON);
  await as("ann", "DELETE", "/topics/moss/follow");
  await setOffline(ann, false);
  await live(ann);
  await buttonIs(ann, OFF);
  await follow("moss");
  await visit(ann, "/topic/moss");
  await buttonIs(ann, ON);
});

test("the index of topics begins with those that are followed", async () => {
  const { ann } = scene;
  const rows = () => ann.texts("[data-testid=followed-topic] .name");
  const rowsAre = (wanted) => ann.until(rows, (now) => String(now) === String(wanted), `followed rows ${wanted}`);
  const headings = () => ann.texts("#view .titled:not([hidden]) > h2:not([hidden])");
  await unfollowAll();
  await visit(ann, "/topics");
  await ann.sees("topic", "#moss");
  assert.deepEqual(await headings(), []);
  await follow("moss");
  await follow("art");
  await visit(ann, "/topics");
  await rowsAre(["#art", "#moss"]);
  assert.deepEqual(await headings(), ["Topics you follow", "Topics now"]);
  // Unfollowed here, a topic stays until the next visit.
  await ann.click("[data-testid=followed-topic]:first-child [data-testid=follow-topic]");
  await ann.sees("toast", "You no longer follow #art.");
  await followedAre(["moss"]);
  assert.deepEqual(await rows(), ["#art", "#moss"]);
  await go(ann, "/topic/moss");
  await buttonIs(ann, ON);
  await ann.run(() => history.back());
  await rowsAre(["#moss"]);
  await ann.click("[data-testid=followed-topic] a");
  await ann.sees("#title", "#moss");
});

test("the limit has a message of its own", async () => {
  const { ann } = scene;
  await unfollowAll();
  for (let n = 1; n <= MAX_TOPICS; n += 1) await follow(`t${n}`);
  await visit(ann, "/topic/moss");
  await buttonIs(ann, OFF);
  await ann.click("follow-topic");
  await ann.sees("toast", "You can follow at most 100 topics. Unfollow one first.");
  await buttonIs(ann, OFF);
  await visit(ann, "/topics");
  const number = () => ann.run(() => document.querySelectorAll("[data-testid=followed-topic]").length);
  await ann.until(number, (now) => now === 10, "the first ten");
  // The toast may cover it.
  await ann.run(() => document.querySelector("[data-testid=followed-topics] [data-testid=more-rows]").focus());
  await ann.press(ENTER);
  await ann.until(number, (now) => now === 20, "ten more");
  await unfollowAll();
});

test("the views fit, have no findings, and speak Chinese", async () => {
  const { ann } = scene;
  for (const name of ["moss", "园艺", LONG]) await follow(name);
  const long = await post("cy", `One word, #${LONG}`);
  const both = await post("cy", "By #moss, and by Bo");
  await as("bo", "PUT", `/posts/${both}/repost`);
  await visit(ann, "/");
  await viaIs(ann, long, `In #${LONG}`);
  await ann.run(() => scrollTo(0, 0));
  await inspect(ann, "followed-home");
  await visit(ann, "/topic/moss");
  await ann.sees("post-body", "Cy on #moss");
  await buttonIs(ann, ON);
  await inspect(ann, "followed-topic");
  await visit(ann, "/topics");
  await ann.sees("followed-topic", "#moss");
  await inspect(ann, "followed-index");
  await visit(ann, "/");
  for (const [size, name] of [[DESKTOP, "followed-menu"], [PHONE, "followed-menu-phone"]]) {
    await ann.emulate(size);
    await ann.click(`[data-id="${long}"] [data-testid=more]`);
    await ann.sees("unfollow-topic", "Unfollow");
    await fits(ann, name);
    await ann.shot(name);
    await ann.press(ESCAPE);
  }
  await ann.emulate(DESKTOP);
  await go(ann, "/settings");
  await ann.click("choose-zh");
  await ann.sees("nav-home", "首页");
  await visit(ann, "/topics");
  await ann.sees("#view", "你关注的话题");
  await ann.emulate(PHONE);
  await fits(ann, "chinese");
  await ann.shot("followed-chinese-index");
  await ann.emulate(DESKTOP);
  await visit(ann, "/");
  await ann.sees("via", "来自 #moss");
  await ann.shot("followed-chinese-home");
  await go(ann, "/settings");
  await ann.click("choose-en");
});
