// Private accounts: the switch, the profile that others see, requests to follow and their answers, removed followers.

import assert from "node:assert/strict";
import { test } from "node:test";

import { inspect } from "./inspect.mjs";
import { createAccount, go, live, stage } from "./people.mjs";

const ESCAPE = "\uE00C";

const as = (user, method, path, body) => scene.server.callAs(user, method, path, body);
const edges = async (user, of) => (await as(user, "GET", `/users/${of}`)).edges;

const scene = stage({
  people: { ann: "Ann Arbor", bo: "Bo Diddley" },
  before: async ({ server }) => {
    for (const [id, name] of [["cy", "Cy Twombly"], ["di", "Di Prima"], ["ed", "Ed Ruscha"]]) {
      await createAccount(server, id, name);
    }
    await as("cy", "PUT", "/users/ann/follow");
    await server.postOf("ann", "For my followers");
  },
});

const lock = (user, locked) => as(user, "PATCH", "/users/me", { locked });
const exists = (browser, name) => browser.run((id) => document.querySelector(`[data-testid=${id}]`) !== null, name);
const gone = (browser, name) => browser.until(() => exists(browser, name), (found) => !found, `no ${name}`);
const labels = (browser) => browser.texts(".menu [role^=menuitem]");

/** The button that follows on the card of a profile: its text, name and state. */
const followButton = (browser) =>
  browser.run(() => {
    const found = document.querySelector("[data-testid=profile] [data-testid=follow]");
    return found && [found.textContent, found.getAttribute("aria-label"), found.getAttribute("aria-pressed")];
  });
const followIs = (browser, text) =>
  browser.until(() => followButton(browser), (now) => now?.[0] === text, `the button is ${text}`);

/** Opens a view anew. */
const visit = async (browser, path) => {
  await go(browser, "/explore");
  await go(browser, path);
};

/** Counts the requests for what a profile lists that the page sends. */
const countReads = (browser) =>
  browser.run(() => {
    window.reads ??= 0;
    const { send } = WebSocket.prototype;
    if (window.isCounting) return;
    window.isCounting = true;
    WebSocket.prototype.send = function (data) {
      window.reads += (String(data).match(/"users\.(posts|likes|comments|followers|following)"/g) ?? []).length;
      return send.call(this, data);
    };
  });

test("a switch in the settings makes the account private, and asks before it is public again", async () => {
  const { ann } = scene;
  await go(ann, "/settings");
  await ann.sees(".settings", "Only people you accept follow you and see your posts.");
  const isOn = () => ann.run(() => document.querySelector("[data-testid=settings-private]").checked);
  assert.equal(await isOn(), false);
  await ann.click("settings-private");
  await ann.sees("private-done", "Your account is private.");
  assert.equal((await as("ann", "GET", "/users/ann")).locked, true);
  await visit(ann, "/settings");
  await ann.until(isOn, Boolean, "the switch is on");
  await ann.click("settings-private");
  await ann.sees("dialog p", "all who wait for an answer become your followers");
  await ann.press(ESCAPE);
  assert.equal(await isOn(), true, "it stays on until that is confirmed");
  assert.equal((await as("ann", "GET", "/users/ann")).locked, true);
  await ann.click("settings-private");
  await ann.click("confirm");
  await ann.sees("private-done", "Your account is public.");
  assert.equal(await isOn(), false);
  assert.equal((await as("ann", "GET", "/users/ann")).locked, false);
});

test("an open profile closes when its owner makes it private, without an error and without asking again", async () => {
  const { bo } = scene;
  await lock("ann", false);
  for (const tab of ["", "/comments", "/likes", "/followers"]) {
    await visit(bo, `/user/ann${tab}`);
    await followIs(bo, "Follow");
    if (tab === "") await bo.sees("post-body", "For my followers");
    await bo.until(() => exists(bo, "lock"), (found) => !found, "no lock");
    await lock("ann", true);
    await bo.sees("locked", "This account is private.");
    await bo.sees("locked", "Ask to follow to see what they post.");
    assert.equal(await exists(bo, "post-body"), false);
    await bo.sees("figure-followers", "1 follower");
    const name = await bo.run(() => document.querySelector("[data-testid=lock]").getAttribute("aria-label"));
    assert.equal(name, "Private account");
    await lock("ann", false);
  }
  await lock("ann", true);
});

test("a private profile shows its card, and one sentence for each of its lists", async () => {
  const { bo } = scene;
  await countReads(bo);
  for (const tab of ["", "/comments", "/likes", "/followers", "/following"]) {
    await visit(bo, `/user/ann${tab}`);
    await bo.sees("profile-name", "Ann Arbor");
    await bo.sees("locked", "Ask to follow to see what they post.");
    assert.equal(await bo.run(() => document.querySelectorAll("[role=alert]:not(:empty)").length), 0);
  }
  const before = await bo.run(() => window.reads);
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  assert.equal(await bo.run(() => window.reads), before, "nothing is asked for again and again");
});

test("the owner sees the lock and the posts, a follower the posts", async () => {
  const { ann } = scene;
  await visit(ann, "/user/ann");
  await ann.sees("post-body", "For my followers");
  assert.equal(await exists(ann, "lock"), true);
  assert.equal(await exists(ann, "locked"), false);
});

test("Follow asks, and pressed again it takes that back", async () => {
  const { bo } = scene;
  await visit(bo, "/user/ann");
  await followIs(bo, "Follow");
  await bo.click("[data-testid=profile] [data-testid=follow]");
  await followIs(bo, "Requested");
  assert.deepEqual(await followButton(bo), ["Requested", "Requested to follow Ann Arbor", "true"]);
  await bo.sees("locked", "You see what they post once they accept.");
  assert.equal((await edges("bo", "ann")).requested, true);
  assert.deepEqual(await bo.texts("[data-testid=locked] [data-testid=follow]"), ["Requested"]);
  await bo.click("[data-testid=profile] [data-testid=follow]");
  await bo.sees("toast", "You no longer ask to follow Ann Arbor.");
  await followIs(bo, "Follow");
  assert.equal((await edges("bo", "ann")).requested, false);
  await bo.click("undo");
  await bo.until(() => edges("bo", "ann"), ({ requested }) => requested, "asked again");
  // The button below the card does the same.
  await visit(bo, "/user/ann");
  await followIs(bo, "Requested");
  await bo.click("[data-testid=locked] [data-testid=follow]");
  await followIs(bo, "Follow");
  assert.equal(await bo.run(() => document.activeElement.dataset.testid), "follow");
  await bo.click("[data-testid=locked] [data-testid=follow]");
  await followIs(bo, "Requested");
});

test("the button in a list has the same three states", async () => {
  const { bo } = scene;
  await as("bo", "PUT", "/users/cy/follow");
  await lock("cy", true);
  await visit(bo, "/user/bo/following");
  const button = '[data-user="cy"] [data-testid=follow]';
  const text = async (wanted) => {
    await bo.until(() => bo.texts(button), ([now]) => now === wanted, wanted);
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.deepEqual(await bo.texts(button), [wanted], "it stays so");
  };
  await text("Following");
  await bo.click(button);
  await text("Follow");
  await bo.click(button);
  await text("Requested");
  await bo.click(button);
  await text("Follow");
  assert.equal((await edges("bo", "cy")).requested, false);
  await lock("cy", false);
});

test("requests are counted above the notifications, listed, and answered", async () => {
  const { ann, bo } = scene;
  await visit(ann, "/notifications");
  await ann.sees("requests-row", "1 person asks to follow you");
  await ann.sees("notification", "Bo Diddley asked to follow you");
  assert.equal(await ann.run(() => document.querySelector("[data-kind=request]").getAttribute("href")), "/requests");
  // A new one appears.
  await as("di", "PUT", "/users/ann/follow");
  await ann.sees("requests-row", "2 people ask to follow you");
  await ann.click("requests-row");
  await ann.sees("requests", "Di Prima");
  assert.equal(await ann.run(() => location.pathname), "/requests");
  await ann.sees("main h1", "Follow requests");
  const names = () => ann.texts("[data-testid=requests] .name");
  assert.deepEqual(await names(), ["Di Prima", "Bo Diddley"]);
  await as("ed", "PUT", "/users/ann/follow");
  await ann.until(names, (now) => now[0] === "Ed Ruscha", "a new request");
  // One that is answered elsewhere or withdrawn leaves.
  await as("ann", "DELETE", "/users/me/requests/ed");
  await ann.until(names, (now) => now.length === 2, "an answered one has left");
  await ann.click('[data-user="di"] [data-testid=reject]');
  await ann.sees("toast", "Rejected. Di Prima is not told.");
  await ann.until(names, (now) => now.length === 1, "the rejected one has left");
  assert.equal(await ann.run(() => document.activeElement.getAttribute("aria-label")), "Accept Bo Diddley");
  // Bo looks at the profile meanwhile.
  await visit(bo, "/user/ann");
  await followIs(bo, "Requested");
  await ann.click('[data-user="bo"] [data-testid=accept]');
  await ann.sees("toast", "Bo Diddley follows you now.");
  await ann.sees("requests", "Nobody asks to follow you");
  await followIs(bo, "Following");
  await bo.sees("post-body", "For my followers");
  assert.equal(await exists(bo, "locked"), false);
  await go(bo, "/notifications");
  await bo.sees("notification", "Ann Arbor accepted your request to follow");
  assert.equal(
    await bo.run(() => document.querySelector("[data-kind=accepted]").getAttribute("href")),
    "/user/ann",
  );
  await go(ann, "/notifications");
  await gone(ann, "requests-row");
});

test("a follower is removed, and the open profile closes for them", async () => {
  const { ann, bo } = scene;
  await visit(bo, "/user/ann");
  await bo.sees("post-body", "For my followers");
  await visit(ann, "/user/ed");
  await ann.click("relations");
  assert.ok(!(await labels(ann)).some((label) => label.startsWith("Remove")), "only who follows is removed");
  await ann.press(ESCAPE);
  await visit(ann, "/user/bo");
  await ann.click("relations");
  await ann.click("remove-follower");
  assert.equal((await edges("bo", "ann")).following, true, "asked first");
  await ann.click("remove-follower");
  await ann.sees("toast", "Bo Diddley no longer follows you.");
  assert.equal((await edges("bo", "ann")).following, false);
  await bo.sees("locked", "Ask to follow to see what they post.");
  assert.equal(await exists(bo, "post-body"), false);
});

test("one's own requests are listed, and withdrawn", async () => {
  const { ann, bo } = scene;
  await as("bo", "PUT", "/users/ann/follow");
  await lock("di", true);
  await as("bo", "PUT", "/users/di/follow");
  await go(bo, "/requests");
  await bo.sees("requests", "Nobody asks to follow you");
  await bo.click("requests-asked");
  await bo.sees("requests", "Ann Arbor");
  const names = () => bo.texts("[data-testid=requests] .name");
  assert.deepEqual(await names(), ["Di Prima", "Ann Arbor"]);
  await bo.click('[data-user="di"] [data-testid=withdraw]');
  await bo.sees("toast", "You no longer ask to follow Di Prima.");
  await bo.until(names, (now) => now.length === 1, "it has left");
  assert.equal((await edges("bo", "di")).requested, false);
  // An accepted one leaves by itself.
  await visit(ann, "/user/bo");
  await ann.sees("request-notice", "Bo Diddley asks to follow you.");
  await ann.click("[data-testid=request-notice] [data-testid=accept]");
  await gone(ann, "request-notice");
  await bo.sees("requests", "You wait for nobody");
});

test("the views fit, have no findings, and speak Chinese", async () => {
  const { ann, bo } = scene;
  await lock("ann", true);
  await as("ann", "DELETE", "/users/me/followers/bo");
  for (const user of ["bo", "cy"]) await as(user, "DELETE", "/users/ann/follow");
  for (const user of ["bo", "cy"]) await as(user, "PUT", "/users/ann/follow");
  const views = [
    [ann, "/requests", "requests", "Cy Twombly"],
    [ann, "/notifications", "requests-row", "ask to follow you"],
    [ann, "/user/bo", "request-notice", "Bo Diddley"],
    [ann, "/user/ann", "post-body", "For my followers"],
    [ann, "/settings", "settings-private", ""],
    [bo, "/user/ann", "locked", "once they accept"],
  ];
  for (const [browser, path, name, text] of views) {
    await visit(browser, path);
    await browser.sees(name, text);
    const toSee = () =>
      browser.run((id) => {
        const found = document.querySelector(`[data-testid=${id}]`);
        if (found.getBoundingClientRect().bottom > innerHeight) found.scrollIntoView({ block: "center" });
      }, name);
    await inspect(browser, `private-${name}`, toSee);
  }
  await go(ann, "/settings");
  await ann.click("choose-zh");
  await ann.sees("nav-home", "首页");
  await go(ann, "/notifications");
  await ann.sees("requests-row", "2 人请求关注你");
  await ann.sees("notification", "请求关注你");
  await go(ann, "/requests");
  await ann.sees("accept", "接受");
  await ann.shot("private-zh");
  await go(ann, "/settings");
  await ann.click("choose-en");
});

test("the address of the requests opens them", async () => {
  const { ann } = scene;
  await ann.open(`${scene.server.origin}/requests`);
  await live(ann);
  await ann.sees("requests", "Cy Twombly");
  await ann.sees("main h1", "Follow requests");
});
