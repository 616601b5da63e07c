// What suspended users see: the server closes their connections, and answers what they read over HTTP. The page goes on
// without a line, below a banner that says why.

import { request } from "./api.js";
import { button, h } from "./dom.js";
import { FeedlineError } from "./feedline/errors.js";
import { tm } from "./i18n/more.js";
import { paths } from "./router.js";
import { lineChanged } from "./components/states.js";

/** The operations that read, with their paths. */
const READS = {
  "timeline.read": "/timeline",
  "posts.get": "/posts/{id}",
  "posts.many": "/posts",
  "posts.explore": "/posts/explore",
  "comments.get": "/comments/{id}",
  "comments.many": "/comments",
  "comments.list": "/posts/{id}/comments",
  "comments.likers": "/comments/{id}/likes",
  "likes.list": "/posts/{id}/likes",
  "users.get": "/users/{id}",
  "users.posts": "/users/{id}/posts",
  "users.comments": "/users/{id}/comments",
  "users.likes": "/users/{id}/likes",
  "users.followers": "/users/{id}/followers",
  "users.following": "/users/{id}/following",
  "users.shared": "/users/{id}/shared",
  "users.friends": "/users/me/friends",
  "users.requests": "/users/me/requests",
  "users.requested": "/users/me/requested",
  "users.muted": "/users/me/muted",
  "users.hidden": "/users/me/hidden",
  "users.blocked": "/users/me/blocked",
  "filters.list": "/filters",
  "lists.list": "/lists",
  "lists.members": "/lists/{id}/members",
  "lists.read": "/lists/{id}/posts",
  "users.lists": "/users/{id}/lists",
  "users.search": "/users",
  "users.suggest": "/users/suggested",
  "topics.list": "/topics",
  "topics.read": "/topics/{name}/posts",
  "topics.followed": "/topics/followed",
  "favourites.list": "/favourites/{type}",
  "notifications.list": "/notifications",
  "devices.list": "/devices",
  "push.key": "/push/key",
  "push.preferences": "/push/preferences",
};

/** Reads over HTTP from now on, and shows everything again, below the banner. */
export async function readOverHttp(app) {
  const { client, session } = app;
  const { connection } = client;
  const { token } = session;
  connection.rpc = (method, input) => read(method, input, token);
  connection.insist = (ask) => ask();
  // Nothing is live: a list is read when it is opened.
  connection.subscribe = (_, { subscribed }) => {
    queueMicrotask(() => subscribed?.({ recovered: false, missed: [] }));
    return () => {};
  };
  const isBlocked = await connection.rpc("users.get", { id: session.user }).then(
    () => false,
    ({ code }) => code === 403,
  );
  if (client !== app.client) return;
  app.banner = () => banner(app, isBlocked);
  for (const list of [client.timeline, client.notifications]) list.reload();
  lineChanged(true);
  app.refresh();
}

async function read(method, input = {}, token) {
  if (!READS[method]) throw refused({ code: 403, reason: "suspended", message: "this user is suspended" });
  const { idempotency_key: _, ...left } = input;
  const path = READS[method].replace(/\{(\w+)\}/g, (_, name) => {
    const value = left[name];
    delete left[name];
    return encodeURIComponent(value);
  });
  const query = new URLSearchParams(left);
  return request("GET", query.size > 0 ? `${path}?${query}` : path, { token }).catch((error) => {
    throw refused(error);
  });
}

/** What fails is not tried again by itself: no connection comes back that it could wait for. */
const refused = ({ code, reason, message }) => new FeedlineError({ code, reason, message });

function banner(app, isBlocked) {
  const own = button({ text: tm("suspended.export"), onclick: () => app.router.go(paths.settings()) });
  const again = button({ text: tm("suspended.again"), onclick: () => location.reload() });
  const leave = button({
    text: tm("suspended.leave"),
    data: { testid: "suspended-leave" },
    onclick: () => app.signOut(),
  });
  const words = h("p", { text: tm(isBlocked ? "suspended.blocked" : "suspended") });
  const choices = h("div", { class: "choices" }, !isBlocked && own, again, leave);
  const properties = { class: "notice", role: "alert", data: { testid: "suspended" } };
  const element = h("div", properties, h("div", {}, words, choices));
  element.style.marginBottom = "14px";
  return element;
}
