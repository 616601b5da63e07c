// Appearance and accessibility of every view: both themes, both widths, axe-core, the keyboard, Chinese.

import assert from "node:assert/strict";
import { test } from "node:test";

import { DESKTOP, findings, fits, PHONE } from "./inspect.mjs";
import { neighbours } from "./neighbours.mjs";
import { go, LIVE_MS, live, signIn, stage } from "./people.mjs";

const MIDDLES = [
  { width: 1000, height: 900 },
  { width: 760, height: 900 },
];

const [TAB, ENTER, CONTROL, ESCAPE, DOWN] = ["\uE004", "\uE007", "\uE009", "\uE00C", "\uE015"];

let thread;
const scene = stage({
  people: { mira: "Mira Holm", nell: "Nell Nowak" },
  before: async ({ server, mira }) => {
    thread = await neighbours(server);
    await mira.click("nav-home");
    await mira.sees("post-body", "Jam update");
    await mira.sees("badge", "4", 4 * LIVE_MS).catch(() => {});
  },
});

/** Every view: its name, its address, and an element that is present once the view is complete. */
const views = () => [
  ["home", "/", "post-body", "Jam update"],
  ["thread", `/post/${thread}`, "comment-text-shown", "all clocks are opinions"],
  ["profile", "/user/yuki", "post-body", "Plum jam"],
  ["profile-own", "/user/mira", "post-body", "Note to self"],
  ["profile-comments", "/user/yuki/comments", "comment-written", "We should found a club"],
  ["profile-likes", "/user/mira/likes", "post-body", "Jam update"],
  ["followers", "/user/mira/followers", "people", "Lena Brandt"],
  ["following", "/user/mira/following", "people", "Yuki Sato"],
  ["shared", "/user/lena/shared", "people", "Yuki Sato"],
  ["friends", "/user/mira/friends", "people", "Yuki Sato"],
  ["explore", "/explore", "everybody", "Jam update"],
  ["topics", "/topics", "topic", "#bread"],
  ["topic", "/topic/bread", "post-body", "Sourdough"],
  ["notifications", "/notifications", "notification", "commented on your post"],
  ["favourites", "/favourites", "post-body", "Jam update"],
  ["search", "/search?q=t", "found", "Tomas Reyes"],
  ["settings", "/settings", ".settings", "Export"],
  ["push", "/settings/push", "push-state", "This server does not push to browsers."],
  ["not-found", "/post/1", "empty", "There is nothing here"],
];

async function at(browser, [, path, name, text]) {
  await go(browser, path);
  await browser.sees(name, text);
  await browser.run(() => scrollTo(0, 0));
}

for (const dark of [false, true]) {
  const theme = dark ? "dark" : "light";
  test(`every view fits in ${theme}, wide and narrow, and axe finds nothing serious`, async () => {
    const { mira } = scene;
    for (const view of views()) {
      const [name] = view;
      await mira.emulate({ ...DESKTOP, dark });
      await at(mira, view);
      assert.deepEqual(await findings(mira), [], `${name} in ${theme}`);
      await fits(mira, name);
      await mira.shot(`${name}-${theme}`);
      await mira.emulate({ ...PHONE, dark });
      await fits(mira, `${name} on a phone`);
      assert.deepEqual(await findings(mira), [], `${name} on a phone in ${theme}`);
      await mira.shot(`${name}-${theme}-phone`);
    }
    await at(mira, views()[0]);
    assert.deepEqual(await findings(mira), [], `home on a phone in ${theme}`);
    for (const size of MIDDLES) {
      await mira.emulate({ ...size, dark });
      await fits(mira, `home at ${size.width}`);
      await mira.shot(`home-${theme}-${size.width}`);
    }
    await mira.emulate(DESKTOP);
  });
}

test("a first visit fits, and axe finds nothing serious", async () => {
  const { nell } = scene;
  await nell.reload();
  for (const dark of [false, true]) {
    const theme = dark ? "dark" : "light";
    await nell.emulate({ ...DESKTOP, dark });
    await at(nell, ["first-visit", "/", "everybody", "Jam update"]);
    assert.deepEqual(await findings(nell), [], `a first visit in ${theme}`);
    await fits(nell, "a first visit");
    await nell.shot(`first-visit-${theme}`);
    await nell.emulate({ ...PHONE, dark });
    await fits(nell, "a first visit on a phone");
    await nell.shot(`first-visit-${theme}-phone`);
  }
});

test("empty views fit, and axe finds nothing serious", async () => {
  const { nell } = scene;
  for (const [name, path] of [
    ["favourites", "/favourites"],
    ["notifications", "/notifications"],
    ["profile", "/user/nell"],
    ["likes", "/user/nell/likes"],
    ["followers", "/user/nell/followers"],
    ["search", "/search?q=nobody-of-that-name"],
    ["topic", "/topic/nothing"],
  ]) {
    await nell.emulate(DESKTOP);
    await at(nell, [name, path, "empty", ""]);
    assert.deepEqual(await findings(nell), [], `no ${name}`);
    await nell.shot(`empty-${name}-light`);
    await nell.emulate({ ...PHONE, dark: true });
    await fits(nell, `no ${name}`);
    await nell.shot(`empty-${name}-dark-phone`);
  }
});

test("the drawer, a menu and the form in a dialog fit too", async () => {
  const { mira } = scene;
  await at(mira, views()[0]);
  await mira.click("curtain");
  await mira.sees("frames", "subscribe");
  assert.deepEqual(await findings(mira), [], "the drawer");
  await mira.shot("drawer");
  await mira.emulate({ ...DESKTOP, dark: true });
  await mira.shot("drawer-dark");
  await mira.emulate({ ...PHONE });
  await mira.shot("drawer-phone");
  await mira.emulate({ ...PHONE, dark: true });
  await fits(mira, "the drawer on a phone");
  await mira.shot("drawer-phone-dark");
  await mira.emulate(PHONE);
  await mira.click("drawer-close");
  await mira.click("fab");
  await mira.type("[data-testid=compose-dialog] [data-testid=post-text]", "Hello @yu");
  await mira.sees("[data-testid=compose-dialog] [data-testid=completion]", "Yuki Sato");
  await mira.shot("compose-phone");
  const isUncovered = await mira.run(() => {
    const button = document.querySelector("[data-testid=compose-dialog] [data-testid=post-submit]");
    const { left, top, width, height } = button.getBoundingClientRect();
    return document.elementFromPoint(left + width / 2, top + height / 2) === button;
  });
  assert.ok(isUncovered, "the completions cover the button");
  assert.deepEqual(await findings(mira), [], "the dialog");
  await mira.emulate({ ...PHONE, dark: true });
  await mira.shot("compose-phone-dark");
  await mira.run(() => document.querySelector("dialog").close());
  await mira.emulate(DESKTOP);
  await go(mira, "/topics");
  await mira.click("compose-open");
  await mira.sees("compose-dialog", "New post");
  assert.deepEqual(await findings(mira), [], "the dialog on a desktop");
  await mira.shot("compose");
  await mira.emulate({ ...DESKTOP, dark: true });
  await mira.shot("compose-dark");
  await mira.emulate(DESKTOP);
  await mira.press(ESCAPE);
  await at(mira, views()[0]);
  await mira.click("audience");
  assert.deepEqual(await findings(mira), [], "the menu");
  await mira.shot("audience");
  await mira.click("audience-friends");
  await mira.sees("audience", "Friends");
});

test("all actions work with the keyboard", async () => {
  const { mira } = scene;
  const focus = () => mira.run(() => document.activeElement.dataset.testid ?? document.activeElement.id);
  const press = (key) => mira.press(key);
  await at(mira, views()[0]);
  await press("j");
  await press("j");
  assert.equal(await focus(), "post");
  const second = await mira.run(() => document.activeElement.dataset.id);
  await press("k");
  assert.notEqual(await mira.run(() => document.activeElement.dataset.id), second);
  await press("j");
  await press("\uE007");
  await mira.until(
    () => mira.run(() => location.pathname),
    (path) => path === `/post/${second}`,
    "the thread",
  );
  await mira.run(() => history.back());
  await mira.until(
    () => mira.run(() => document.activeElement.dataset.id ?? ""),
    (id) => id === second,
    "the focus is back",
  );
  await press("n");
  assert.equal(await focus(), "post-text");
  await mira.run(() => document.activeElement.blur());
  await press("/");
  await mira.until(focus, (now) => now === "search", "the search");
  await mira.run(() => document.activeElement.blur());
  await press("?");
  await mira.sees("keys", "Next post");
  await press("\uE00C");
  await mira.until(() => mira.run(() => document.querySelector("dialog") === null), Boolean, "closed");
});

test("likes, follows, menus and posts need no pointer, and Tab reaches them in order", async () => {
  const { mira } = scene;
  const focus = () => mira.run(() => document.activeElement.dataset.testid ?? document.activeElement.className);
  const pressed = () => mira.run(() => document.activeElement.getAttribute("aria-pressed"));
  /** Presses Tab until one of these has the focus, and returns what had it on the way. */
  const tabTo = async (wanted) => {
    const seen = [];
    while (seen.at(-1) !== wanted) {
      assert.ok(seen.length < 60, `${wanted} after ${seen}`);
      await mira.press(TAB);
      seen.push(await focus());
    }
    return seen;
  };
  await mira.reload();
  await live(mira);
  await at(mira, views()[0]);
  await mira.run(() => {
    document.activeElement.blur();
    getSelection().removeAllRanges();
    document.body.focus();
  });
  await mira.run(() => document.querySelector(".skip").focus());
  const order = await tabTo("permalink");
  const places = ["nav-home", "nav-notifications", "compose-open", "me", "post-text", "post-submit", "permalink"];
  assert.deepEqual(order.filter((one) => places.includes(one)), places);
  // The heart: with its key on the post, and with Enter on itself.
  const likeState = (id) =>
    mira.run((post) => document.querySelector(`[data-id="${post}"] [data-testid=like]`).dataset.state, id);
  const id = await mira.run(() => document.activeElement.closest("article").dataset.id);
  await tabTo("like");
  const before = await pressed();
  for (const wanted of [String(before !== "true"), before]) {
    await mira.press(ENTER);
    assert.equal(await pressed(), wanted);
    await mira.until(() => likeState(id), (now) => now === "settled", "settled");
  }
  await mira.press("l");
  assert.notEqual(await pressed(), before);
  await mira.press("l");
  // A menu: it takes the focus, arrows move in it, Escape gives the focus back.
  await tabTo("more");
  await mira.press(ENTER);
  const items = [await focus()];
  assert.equal(await mira.run(() => document.activeElement.getAttribute("role")), "menuitem");
  await mira.press(DOWN);
  items.push(await mira.run(() => document.activeElement.textContent));
  assert.notEqual(items[0], items[1]);
  await mira.press(ESCAPE);
  assert.equal(await focus(), "more");
  // Writing, and sending with the keys.
  await mira.press("n");
  await mira.type("post-text", "Sent with the keyboard");
  await mira.press(ENTER, CONTROL);
  await mira.sees("post-body", "Sent with the keyboard");
  await go(mira, "/user/lena");
  await mira.sees("follow", "Follow");
  await tabTo("follow");
  await mira.press(ENTER);
  await mira.sees("follow", "Following");
  await mira.until(focus, (now) => now === "follow", "the focus stays where the action was");
});

test("back and forward restore the scroll position", async () => {
  const { server, mira } = scene;
  for (let n = 0; n < 25; n += 1) await server.postOf("yuki", `Jar ${n}`);
  await at(mira, ["home", "/", "posts", ""]);
  await mira.reload();
  await live(mira);
  await mira.sees("post-body", "Jar 24");
  await mira.run(() => scrollTo(0, 1200));
  await mira.until(
    () => mira.run(() => scrollY),
    (now) => now === 1200,
    "scrolled",
  );
  await go(mira, "/topics");
  assert.equal(await mira.run(() => scrollY), 0);
  await mira.run(() => history.back());
  await mira.until(
    () => mira.run(() => scrollY),
    (now) => now === 1200,
    "back at the place",
  );
  await mira.run(() => history.forward());
  await mira.sees("topic", "#bread");
  await mira.click("nav-home");
  await mira.until(
    () => mira.run(() => scrollY),
    (now) => now === 0,
    "Home anew begins at the top",
  );
});

test("the page is available in Chinese", async () => {
  const { mira } = scene;
  await go(mira, "/settings");
  await mira.click("choose-zh");
  await mira.sees("nav-home", "首页");
  await mira.sees("save-profile", "保存");
  await mira.shot("settings-zh");
  await go(mira, "/notifications");
  await mira.sees("notification", "评论了你的帖子");
  await go(mira, "/");
  await mira.shot("home-zh");
  assert.equal(await mira.run(() => document.documentElement.lang), "zh-CN");
  assert.deepEqual(await findings(mira), []);
  await mira.reload();
  await live(mira);
  await mira.sees("nav-home", "首页");
  await mira.click("nav-settings");
  await mira.click("choose-en");
  await mira.sees("nav-home", "Home");
});

test("the theme follows the system until the user selects one", async () => {
  const { mira } = scene;
  const paper = () => mira.run(() => getComputedStyle(document.body).backgroundColor);
  await go(mira, "/settings");
  await mira.sees("choose-light", "Light");
  await mira.emulate({ ...DESKTOP, dark: true });
  assert.equal(await paper(), "rgb(15, 19, 20)");
  await mira.click("choose-light");
  assert.equal(await paper(), "rgb(250, 249, 246)");
  await mira.click("choose-system");
  assert.equal(await paper(), "rgb(15, 19, 20)");
  await mira.emulate(DESKTOP);
});

test("settings change the profile and the password, export, and delete the account", async () => {
  const { server, mira } = scene;
  await go(mira, "/settings");
  await mira.run(() => document.querySelector("[data-testid=settings-name]").select());
  await mira.type("settings-name", "Mira H.");
  await mira.click("save-profile");
  await mira.sees("save-profile-done", "Saved.");
  await mira.sees("my-name", "Mira H.");
  await mira.type("settings-old", "correct horse battery");
  await mira.type("settings-new", "another correct horse");
  await mira.click("save-password");
  await mira.sees("save-password-done", "Changed.");
  await mira.click("export");
  await mira.sees("export-status", "Exported.");
  await mira.click("delete-account");
  await mira.type("delete-password", "another correct horse");
  await mira.click("confirm");
  await mira.sees("gate-error", "Your account is deleted.");
  const answer = await fetch(`${server.origin}/api/v1/sessions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ user: "mira", password: "another correct horse" }),
  });
  assert.equal(answer.status, 401);
});

test("sign in and sign up fit, and axe finds nothing serious", async () => {
  const { server, mira } = scene;
  for (const mode of ["sign-in", "sign-up"]) {
    await mira.open(`${server.origin}/${mode}`);
    await mira.sees("gate-submit", mode === "sign-in" ? "Sign in" : "Create an account");
    for (const dark of [false, true]) {
      const name = dark ? `${mode}-dark` : mode;
      await mira.emulate({ ...DESKTOP, dark });
      assert.deepEqual(await findings(mira), [], name);
      await mira.shot(name);
      await mira.emulate({ ...PHONE, dark });
      await fits(mira, name);
      await mira.shot(`${name}-phone`);
    }
  }
  await mira.emulate(DESKTOP);
  scene.expected = ["the server responded with a status of 401"];
  await mira.open(`${server.origin}/sign-in`);
  await signIn(mira, "yuki", "wrong");
  await mira.sees("gate-error", "The id or the password is wrong.");
});

test("a view that cannot be loaded says so, and loads when the server is back", async () => {
  const { server, nell } = scene;
  scene.expected = ["WebSocket connection to", "ERR_CONNECTION_REFUSED"];
  await nell.emulate(DESKTOP);
  await go(nell, "/explore");
  await server.kill();
  await go(nell, "/topics");
  await nell.sees("empty", "waiting for the line", 20_000);
  assert.deepEqual(await findings(nell), [], "an error");
  await nell.shot("error-light");
  await nell.emulate({ ...PHONE, dark: true });
  await nell.shot("error-dark-phone");
  await server.restart();
  await live(nell);
  await nell.sees("topic", "#bread");
});
