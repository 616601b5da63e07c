// The service worker without a browser: what a silent message closes, and that each push shows something.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { createContext, runInContext } from "node:vm";

const SOURCE = await readFile(new URL("../../web/service-worker.js", import.meta.url), "utf8");

const SCOPE = "https://example.org/feed/";

/** A page of another application on the same host. */
const OTHER = {
  url: "https://example.org/feeds/",
  visibilityState: "visible",
  postMessage: () => assert.fail("a message to another application"),
};

/** A worker that shows these notifications, with pages that are visible or not. */
function worker({ shown = [], pages = [] } = {}) {
  const listeners = {};
  const log = [];
  const open = [];
  const showNotification = async (title, { tag, data, silent = false } = {}) => {
    const notification = { tag, data, close: () => open.splice(open.indexOf(notification), 1) };
    open.push(notification);
    log.push(silent ? `silent ${tag}` : title);
  };
  for (const data of shown) showNotification("before", { tag: JSON.stringify(data), data });
  log.length = 0;
  const registration = {
    scope: SCOPE,
    showNotification,
    getNotifications: async ({ tag } = {}) => open.filter((one) => tag === undefined || one.tag === tag),
  };
  const clients = {
    matchAll: async () => [...pages.map((visibilityState) => ({ url: `${SCOPE}post/1`, visibilityState })), OTHER],
    openWindow: (url) => log.push(url),
  };
  const addEventListener = (name, listener) => (listeners[name] = listener);
  const self = { addEventListener, registration, clients, navigator: {}, skipWaiting() {} };
  runInContext(SOURCE, createContext({ self, setTimeout, MessageChannel }));
  const push = (message) => {
    let done;
    const data = message && { json: () => message };
    listeners.push({ data, waitUntil: (promise) => (done = promise) });
    return done;
  };
  const click = (data) => {
    let done;
    const notification = { data, close() {} };
    listeners.notificationclick({ notification, waitUntil: (promise) => (done = promise) });
    return done;
  };
  return { push, click, log, open: () => open.map(({ data }) => data?.notification ?? data?.post) };
}

const clear = (data) => ({ kind: "clear", badge: 0, data });
const notifications = (...ids) => ids.map((id) => ({ notification: String(id), post: "5" }));

test("a clear closes what was read, and nothing that came after it was made", async () => {
  const { push, open } = worker({ shown: notifications(7, 8, 9, 12) });
  await push(clear({ unread: "8", upto: "9", seen_post: "0" }));
  assert.deepEqual(open(), ["8", "12"]);
});

test("ids of different lengths are compared as numbers", async () => {
  const { push, open } = worker({ shown: notifications(99, 100) });
  await push(clear({ unread: "", upto: "99", seen_post: "0" }));
  assert.deepEqual(open(), ["100"]);
});

test("where the list of unread ones is not complete, older ones stay", async () => {
  const { push, open } = worker({ shown: notifications(3, 5, 7, 8) });
  await push(clear({ unread: "8", after: "5", upto: "9", seen_post: "0" }));
  assert.deepEqual(open(), ["3", "5", "8"]);
});

test("alerts about posts are closed up to the read marker", async () => {
  const { push, open } = worker({ shown: [{ post: "4" }, { post: "6" }, ...notifications(7)] });
  await push(clear({ unread: "7", upto: "7", seen_post: "5" }));
  assert.deepEqual(open(), ["6", "7"]);
});

test("a clear that leaves nothing shows something for a moment", async () => {
  for (const pages of [[], ["hidden"]]) {
    const { push, log, open } = worker({ shown: notifications(7), pages });
    await push(clear({ unread: "", upto: "7", seen_post: "0" }));
    assert.deepEqual([log, open()], [["silent read"], []]);
  }
});

test("a clear shows nothing if something is on the screen, or a page is visible", async () => {
  const left = worker({ shown: notifications(7, 8) });
  await left.push(clear({ unread: "8", upto: "8", seen_post: "0" }));
  const seen = worker({ shown: notifications(7), pages: ["hidden", "visible"] });
  await seen.push(clear({ unread: "", upto: "7", seen_post: "0" }));
  assert.deepEqual([left.log, seen.log], [[], []]);
});

test("a push that cannot be read shows something", async () => {
  const { push, log } = worker();
  await push(undefined);
  assert.equal(log.length, 1);
});

test("a click opens the view below the path of the page", async () => {
  const { click, log } = worker();
  await click({ post: "7", comment: "9" });
  await click({ post: "7" });
  await click({ type: "follow" });
  assert.deepEqual(log, [`${SCOPE}post/7?comment=9`, `${SCOPE}post/7`, `${SCOPE}notifications`]);
});
