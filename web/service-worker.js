// Shows pushes while no page is open, withdraws them once they are read elsewhere, and opens what they are about. A
// worker belongs to the browser, not to an account: the pages know whose pushes these are (web/push.js).

/** The address of the page, with a slash at its end. */
const SCOPE = self.registration.scope;
const ANSWER_MS = 500;
/** What is said of a push that cannot be read: browsers demand that each shows something. */
const UNREADABLE = { kind: "alert", title: "Feedline", body: "", tag: "unreadable" };

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("push", (event) => event.waitUntil(received(parse(event.data))));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data ?? {}));
});
// Only a page has the account's session: it registers the new subscription.
self.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(renew(event)));

function parse(data) {
  try {
    return data.json();
  } catch {
    return UNREADABLE;
  }
}

async function received(push) {
  if (push.kind === "clear") {
    await withdraw(push);
    await showSomething();
  } else await show(push);
  await setBadge(push.badge);
}

function show({ title, body = "", tag, data = {} }) {
  return self.registration.showNotification(title || UNREADABLE.title, { body, tag, data });
}

/**
 * Closes what was read or has ended: notifications behind `after` up to `upto` that are not among the unread ones, and
 * posts up to the newest that was seen, or that are gone. A clear may arrive after notifications that are newer than
 * it: these stay.
 */
async function withdraw({ data = {} }) {
  const { unread = "", after = 0, upto = Infinity, seen_post: seenPost = 0, gone_posts: gonePosts = "" } = data;
  const left = new Set(unread.split(","));
  const gone = new Set(gonePosts.split(","));
  const isRead = ({ notification, post }) => {
    if (!notification) return !post || Number(post) <= Number(seenPost) || gone.has(post);
    const id = Number(notification);
    return !left.has(notification) && id > Number(after) && id <= Number(upto);
  };
  for (const shown of await self.registration.getNotifications()) {
    if (isRead(shown.data ?? {})) shown.close();
  }
}

/** Browsers demand that each push shows something, unless a page is visible. What is left of a clear may be nothing. */
async function showSomething() {
  const isSeen = (await pages()).some(({ visibilityState }) => visibilityState === "visible");
  if (isSeen || (await self.registration.getNotifications()).length > 0) return;
  const tag = "read";
  await self.registration.showNotification(UNREADABLE.title, { tag, silent: true });
  for (const shown of await self.registration.getNotifications({ tag })) shown.close();
}

/** The number of unread notifications on the icon of the installed page; 0 takes it away. */
async function setBadge(number) {
  if (number === undefined || !self.navigator.setAppBadge) return;
  // Refused where the page is not installed.
  await self.navigator.setAppBadge(number).catch(() => {});
}

/** Opens the view in a page of the account, or in a new one. */
async function open(data) {
  const path = pathOf(data);
  for (const client of await pages()) {
    const isDone = await ask(client, { type: "open", path, notification: Number(data.notification) || null });
    if (isDone) return client.focus();
  }
  return self.clients.openWindow(path);
}

/** The address of what a push is about. Private pushes do not say. */
function pathOf({ post, comment, type }) {
  if (type === "request") return `${SCOPE}requests`;
  if (!isId(post) || type === "follow") return `${SCOPE}notifications`;
  return `${SCOPE}post/${post}${isId(comment) ? `?comment=${comment}` : ""}`;
}

const isId = (text) => /^\d{1,16}$/.test(text);

async function renew({ oldSubscription, newSubscription }) {
  const { options } = oldSubscription ?? {};
  if (!newSubscription && options) await self.registration.pushManager.subscribe(options).catch(() => {});
  for (const client of await pages()) client.postMessage({ type: "subscription" });
}

/** Pages in the order in which they were looked at last. The origin may have other applications. */
async function pages() {
  const all = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  return all.filter(({ url }) => url.startsWith(SCOPE));
}

/** Whether a page says that a message was for its account. */
function ask(client, message) {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data }) => resolve(data === true);
    setTimeout(() => resolve(false), ANSWER_MS);
    client.postMessage(message, [port2]);
  });
}
