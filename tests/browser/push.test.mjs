// Web Push in the page: turning it on and off, whose pushes a browser shows, what the worker does with them, and the
// preferences. The browser delivers pushes to the worker itself; only its subscription is made up, as the push
// services of browsers cannot be reached from here.

import assert from "node:assert/strict";
import { createECDH, randomBytes } from "node:crypto";
import { test } from "node:test";

import { DevTools } from "./devtools.mjs";
import { DESKTOP, findings, fits, PHONE } from "./inspect.mjs";
import { go, live, signIn, stage } from "./people.mjs";

const VAPID = createECDH("prime256v1");
VAPID.generateKeys();
// Node.js leaves out leading zeros.
const VAPID_PRIVATE_KEY = Buffer.concat([Buffer.alloc(32), VAPID.getPrivateKey()]).subarray(-32).toString("base64url");

let worker = null;
const scene = stage({
  people: { ann: "Ann Arbor", bo: "Bo Diddley" },
  env: {
    FEEDLINE__PUSH__ENABLED: "true",
    FEEDLINE__PUSH__DRY_RUN: "true",
    FEEDLINE__PUSH__VAPID_PRIVATE_KEY: VAPID_PRIVATE_KEY,
    FEEDLINE__PUSH__VAPID_SUBJECT: "mailto:ops@example.org",
  },
  after: () => worker?.tools.close(),
});

const cdp = (browser, cmd, params = {}) => browser.call("POST", "/goog/cdp/execute", { cmd, params });
const state = (browser, wanted) =>
  browser.until(
    () => browser.run(() => document.querySelector("[data-testid=push-state]")?.dataset.state),
    (now) => now === wanted,
    `push is ${wanted}`,
  );
const devices = async (user) => (await scene.server.callAs(user, "GET", "/devices")).items;

/** Lets the site show notifications, or not, without asking. */
const permit = (browser, setting) =>
  cdp(browser, "Browser.setPermission", {
    permission: { name: "notifications" },
    setting,
    origin: scene.server.origin,
  });

/**
 * Stands in for the browser's push service in the pages of a tab: one subscription for all tabs of the origin, as in a
 * real browser. What `subscribe` does is set with `answer`.
 */
async function install(browser) {
  const key = createECDH("prime256v1");
  const keys = { p256dh: key.generateKeys("base64url"), auth: randomBytes(16).toString("base64url") };
  const endpoint = `https://push.example.org/${randomBytes(8).toString("hex")}`;
  const inPage = (made) => {
    const unsubscribe = async () => (localStorage.removeItem("test.subscription"), true);
    const current = () => {
      const stored = JSON.parse(localStorage.getItem("test.subscription"));
      return stored && { options: {}, toJSON: () => stored, unsubscribe };
    };
    PushManager.prototype.getSubscription = async () => current();
    PushManager.prototype.subscribe = async (options) => {
      window.asked = options;
      const how = localStorage.getItem("test.answer");
      if (how === "waits") await new Promise(() => {});
      if (how !== "gives") throw new DOMException("no", how);
      if (!current()) localStorage.setItem("test.subscription", JSON.stringify(made));
      return current();
    };
  };
  const source = `(${inPage})(${JSON.stringify({ endpoint, keys })})`;
  await cdp(browser, "Page.addScriptToEvaluateOnNewDocument", { source });
}

/** What the browser's push service answers from now on: "gives", "waits", or the name of an error. */
const answer = (browser, how) => browser.run((value) => localStorage.setItem("test.answer", value), how);

/** Connects to a browser's worker, which counts the pushes that it is done with from then on. */
async function connect(browser) {
  const { origin } = scene.server;
  const tools = await DevTools.connect(browser);
  const page = await tools.attach(({ type, url }) => type === "page" && url.startsWith(origin));
  await tools.send("ServiceWorker.enable", {}, page);
  await tools.send("ServiceWorker.startWorker", { scopeURL: `${origin}/` }, page);
  const known = () => tools.events.flatMap(({ params }) => params.registrations ?? []).at(-1);
  const { registrationId } = await browser.until(async () => known(), Boolean, "a registration");
  const inWorker = await tools.attach(({ type }) => type === "service_worker");
  const count = "self.done = 0; self.before = received; received = (push) => before(push).finally(() => (done += 1));";
  await tools.evaluate(`${count} 0`, inWorker);
  return { tools, page, registrationId, inWorker };
}

/**
 * Delivers a push to the worker, as the browser does, and waits until it is done. (The browser drops notifications that
 * it is about to show if one asks for those that are shown.)
 */
async function deliver(browser, push) {
  worker ??= await connect(browser);
  const { tools, page, registrationId, inWorker } = worker;
  const before = await tools.evaluate("done", inWorker);
  const data = typeof push === "string" ? push : JSON.stringify(push);
  const options = { origin: scene.server.origin, registrationId, data };
  await tools.send("ServiceWorker.deliverPushMessage", options, page);
  await browser.until(() => tools.evaluate("done", inWorker), (now) => now > before, "the push is done");
}

/** Clicks the notification of a tag, as far as that is possible from outside: the worker gets the event. */
function click(browser, tag) {
  const dispatch = `registration.getNotifications({ tag: ${JSON.stringify(tag)} }).then(([notification]) =>
    self.dispatchEvent(new NotificationEvent("notificationclick", { notification })))`;
  return worker.tools.evaluate(dispatch, worker.inWorker);
}

/** The notifications that the worker shows: title, body, tag. */
const shown = (browser) =>
  browser.run(async () => {
    const registration = await navigator.serviceWorker.getRegistration();
    const all = (await registration?.getNotifications()) ?? [];
    return all.map(({ title, body, tag }) => [title, body, tag].join("|")).sort();
  });
const shows = (browser, wanted) =>
  browser.until(
    () => shown(browser),
    (now) => JSON.stringify(now) === JSON.stringify([...wanted].sort()),
    `notifications ${wanted}`,
  );

const alert = (id, more = {}) => ({
  id: randomBytes(8).toString("hex"),
  kind: "alert",
  title: `Push ${id}`,
  body: "hello",
  tag: `notification-${id}`,
  thread: "post-7",
  badge: 1,
  data: { notification: String(id), type: "mention", post: "7" },
  ...more,
});

/** Looks at the view in both themes and widths: axe finds nothing serious, nothing sticks out. */
async function looks(browser, name) {
  for (const dark of [false, true]) {
    for (const [size, ending] of [[DESKTOP, ""], [PHONE, "-phone"]]) {
      await browser.emulate({ ...size, dark });
      await fits(browser, name);
      await browser.shot(`${name}-${dark ? "dark" : "light"}${ending}`);
    }
    assert.deepEqual(await findings(browser), [], name);
  }
  await browser.emulate(DESKTOP);
}

test("pushes cannot be turned on where the site is blocked, and nothing is asked before a click", async () => {
  const { ann } = scene;
  await permit(ann, "denied");
  await go(ann, "/settings");
  await ann.click("open-push");
  await state(ann, "denied");
  assert.equal(await ann.run(async () => (await navigator.serviceWorker.getRegistrations()).length), 0, "no worker");
  assert.deepEqual(await devices("ann"), []);
});

test("a push service that does not answer, or refuses, is said, and nothing is registered", async () => {
  const { ann } = scene;
  await permit(ann, "granted");
  await install(ann);
  await go(ann, "/settings");
  await ann.reload();
  await live(ann);
  await ann.click("open-push");
  await state(ann, "off");
  await answer(ann, "waits");
  await ann.click("push-turn");
  await ann.sees("push-state", "Waiting for the browser.");
  await ann.sees("push-problem", "does not answer", 14_000);
  await state(ann, "off");
  await answer(ann, "AbortError");
  await ann.click("push-turn");
  await ann.sees("push-problem", "cannot be reached");
  await looks(ann, "push-refused");
  assert.deepEqual(await devices("ann"), []);
});

test("a click registers the subscription with the server's key, and the device is listed", async () => {
  const { ann } = scene;
  await answer(ann, "gives");
  await ann.click("push-turn");
  await state(ann, "on");
  const asked = await ann.run(() => window.asked);
  assert.deepEqual(asked, { userVisibleOnly: true, applicationServerKey: VAPID.getPublicKey("base64url") });
  const [device, ...others] = await devices("ann");
  assert.deepEqual([others, device.platform, device.locale], [[], "webpush", "en"]);
  assert.match(device.time_zone, /\w/);
  await ann.sees("device", "This browser");
  await looks(ann, "push-on");
});

test("a push is shown, replaced by its tag, and opens what it is about", async () => {
  const { server, ann } = scene;
  const { id } = await server.postOf("bo", "Look at this, @ann");
  const data = { notification: "99", type: "mention", post: String(id) };
  await deliver(ann, alert(1, { data }));
  await shows(ann, ["Push 1|hello|notification-1"]);
  await deliver(ann, alert(1, { title: "Push 1 again", data }));
  await shows(ann, ["Push 1 again|hello|notification-1"]);
  await deliver(ann, "not JSON");
  await shows(ann, ["Push 1 again|hello|notification-1", "Feedline||unreadable"]);
  assert.notEqual(await ann.run(() => location.pathname), `/post/${id}`);
  await click(ann, "notification-1");
  await ann.until(() => ann.run(() => location.pathname), (now) => now === `/post/${id}`, "the thread");
  await shows(ann, ["Feedline||unreadable"]);
  await deliver(ann, alert(3, { data: { notification: "99" } }));
  await shows(ann, ["Push 3|hello|notification-3", "Feedline||unreadable"]);
  await click(ann, "notification-3");
  await ann.until(() => ann.run(() => location.pathname), (now) => now === "/notifications", "a private push");
  await deliver(ann, alert(4, { data: { notification: "100", type: "request" } }));
  await click(ann, "notification-4");
  await ann.until(() => ann.run(() => location.pathname), (now) => now === "/requests", "a request to follow");
});

test("a clear withdraws what was read elsewhere, and leaves the rest", async () => {
  const { ann } = scene;
  const clear = (data, badge) => deliver(ann, { kind: "clear", tag: "clear", badge, data });
  const post = (id) => alert(id, { tag: `alert-post-${id}`, data: { post: String(id), type: "post" } });
  for (const push of [alert(1), alert(2), post(50), post(60)]) await deliver(ann, push);
  const texts = ["Push 1|hello|notification-1", "Push 2|hello|notification-2"];
  const posts = ["Push 50|hello|alert-post-50", "Push 60|hello|alert-post-60"];
  await shows(ann, [...texts, ...posts, "Feedline||unreadable"]);
  await clear({ unread: "2,17" }, 2);
  await shows(ann, [texts[1], ...posts]);
  await clear({ unread: "2", seen_post: "50" }, 1);
  await shows(ann, [texts[1], posts[1]]);
  await clear({ unread: "", seen_post: "60" }, 0);
  await shows(ann, []);
});

test("a subscription that the browser replaces is registered again", async () => {
  const { ann } = scene;
  const [{ seen_at: before }] = await devices("ann");
  const dispatch = 'self.dispatchEvent(new ExtendableEvent("pushsubscriptionchange"))';
  await worker.tools.evaluate(dispatch, worker.inWorker);
  await ann.until(() => devices("ann"), ([device]) => device.seen_at > before, "a later registration");
});

test("the preferences are saved, and read back", async () => {
  const { server, ann } = scene;
  // What the page does not show stays.
  await server.callAs("ann", "PUT", "/push/preferences", { kinds: { "app.x": false } });
  await go(ann, "/settings");
  await ann.click("open-push");
  await ann.sees("push-save", "Save");
  for (const name of ["push-like", "push-accepted", "push-quote", "push-private", "push-quiet"]) await ann.click(name);
  await ann.click('[data-testid="push-app.*"]');
  await ann.run(() => {
    const set = (id, value) => (document.getElementById(id).value = value);
    set("push-from", "23:15");
    set("push-to", "06:45");
    set("push-zone", "Asia/Shanghai");
    set("push-cap", "12");
  });
  await ann.click("push-save");
  await ann.sees("push-saved", "Saved.");
  const shared = { mention: true, reply: true, comment: true, like: false, follow: true, post: true };
  const ofApplication = { "app.*": false, "app.x": false };
  const kinds = { ...shared, request: true, accepted: false, repost: true, quote: false, ...ofApplication };
  const quiet = { from: "23:15", to: "06:45", time_zone: "Asia/Shanghai" };
  const wanted = { kinds, private: true, quiet_hours: quiet, daily_cap: 12 };
  assert.deepEqual(await server.callAs("ann", "GET", "/push/preferences"), wanted);
  await ann.reload();
  await live(ann);
  await ann.sees("push-save", "Save");
  const read = await ann.run(() =>
    Object.fromEntries([...document.querySelectorAll("form [id^=push-]")].map((input) =>
      [input.id, input.type === "checkbox" ? input.checked : input.value])));
  assert.deepEqual(
    [read["push-like"], read["push-mention"], read["push-private"], read["push-quiet"]],
    [false, true, true, true],
  );
  assert.deepEqual(
    [read["push-from"], read["push-to"], read["push-zone"], read["push-cap"]],
    ["23:15", "06:45", "Asia/Shanghai", "12"],
  );
  await ann.run(() => (document.getElementById("push-cap").value = "0"));
  await ann.click("push-save");
  await ann.sees("push-error", "from 1 to 1,000");
  await ann.run(() => (document.getElementById("push-cap").value = "5"));
  await ann.run(() => (document.getElementById("push-to").value = "23:15"));
  await ann.click("push-save");
  await ann.sees("push-error", "not the same time twice");
  assert.deepEqual(await server.callAs("ann", "GET", "/push/preferences"), wanted, "nothing else was saved");
});

test("the bell of an author asks for their posts", async () => {
  const { server, ann } = scene;
  await server.callAs("ann", "PUT", "/users/bo/follow");
  const edges = async () => (await server.callAs("ann", "GET", "/users/bo")).edges;
  await go(ann, "/user/bo");
  await ann.click("bell");
  await ann.until(edges, ({ notify }) => notify, "an alert");
  await ann.click("[data-testid=bell][aria-pressed=true]:not(:disabled)");
  await ann.until(edges, ({ notify }) => !notify, "no alert");
});

test("of two accounts in one browser, the last that turned pushes on gets them", async () => {
  const { server, ann } = scene;
  await go(ann, "/settings/push");
  await state(ann, "on");
  assert.equal((await devices("ann")).length, 1);
  const handles = await ann.call("GET", "/window/handles");
  const { handle } = await ann.call("POST", "/window/new", { type: "tab" });
  await ann.call("POST", "/window", { handle });
  await install(ann);
  await ann.open(`${server.origin}/settings/push`);
  await live(ann);
  await ann.click("me");
  await ann.click("account-other");
  await signIn(ann, "bo");
  await live(ann);
  await go(ann, "/settings/push");
  await state(ann, "other");
  await ann.sees("push-state", "On for @ann.");
  await ann.click("push-turn");
  await state(ann, "on");
  assert.deepEqual([(await devices("ann")).length, (await devices("bo")).length], [0, 1]);
  await ann.call("POST", "/window", { handle: handles[0] });
  await state(ann, "other");
  await ann.sees("push-state", "On for @bo.");
  await looks(ann, "push-other");
  await ann.call("POST", "/window", { handle });
  await ann.click("me");
  await ann.click("[data-testid=sign-out]");
  await ann.sees("gate-submit", "Sign in");
  await ann.until(() => devices("bo"), (list) => list.length === 0, "no device of bo");
  await ann.call("DELETE", "/window");
  await ann.call("POST", "/window", { handle: handles[0] });
  await state(ann, "off");
});

test("all of it is in Chinese, too, and works with the keyboard", async () => {
  const { ann } = scene;
  await go(ann, "/settings");
  await ann.click("choose-zh");
  // The language is loaded first. A link clicked before that may go with the old page.
  await ann.sees("nav-home", "首页");
  await ann.click("open-push");
  await ann.sees("push-save", "保存");
  await ann.run(() => document.querySelector("[data-testid=push-turn]").focus());
  await ann.press("\uE007");
  await state(ann, "on");
  await ann.sees("push-state", "本浏览器会显示你的通知");
  assert.equal((await devices("ann"))[0].locale, "zh-CN");
  const focused = () => ann.run(() => document.activeElement.dataset.testid);
  await ann.until(focused, (id) => id === "push-turn", "the focus stays");
  await looks(ann, "push-zh");
  await ann.press("\uE007");
  await state(ann, "off");
  assert.deepEqual(await devices("ann"), []);
  await go(ann, "/settings");
  await ann.click("choose-en");
  await ann.sees("nav-home", "Home");
});

test("a device can be removed from the list", async () => {
  const { server, ann } = scene;
  await server.callAs("ann", "PUT", "/devices/phone", { platform: "fcm", token: "t", app_version: "Feedline 1.2" });
  // The settings read the list when they are opened.
  await go(ann, "/");
  await go(ann, "/settings");
  await ann.sees("[data-testid=push-settings] [data-testid=device]", "Feedline 1.2");
  await ann.click("open-push");
  await ann.sees("[data-testid=devices] [data-testid=device]", "Feedline 1.2");
  await ann.click('[data-testid=device][data-id="phone"] [data-testid=device-remove]');
  await ann.click("confirm");
  await ann.until(() => devices("ann"), (list) => list.every(({ id }) => id !== "phone"), "no phone");
  await ann.until(() => ann.texts("device"), (texts) => !texts.join().includes("Feedline 1.2"), "no phone in the list");
});
