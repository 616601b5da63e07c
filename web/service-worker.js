// Shows pushes while no page is open, withdraws them once they are read elsewhere, and opens what they are about. A
// worker belongs to the browser, not to an account: the pages know whose pushes these are (web/push.js).

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
  if (push.kind === "clear") await withdraw(push);
  else await show(push);
  await setBadge(push.badge);
}

function show({ title, body = "", tag, data = {} }) {
  return self.registration.showNotification(title || UNREADABLE.title, { body, tag, data });
}

/** Closes what was read: notifications that are not among the unread ones, and posts up to the newest that was seen. */
async function withdraw({ data: { unread = "", seen_post: seenPost = 0 } = {} }) {
  const left = new Set(unread.split(","));
  for (const shown of await self.registration.getNotifications()) {
    const { notification, post } = shown.data ?? {};
    const isRead = notification ? !left.has(notification) : !post || Number(post) <= Number(seenPost);
    if (isRead) shown.close();
  }
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
function pathOf({ post, type }) {
  return /^\d{1,16}$/.test(post) && type !== "follow" ? `/post/${post}` : "/notifications";
}

async function renew({ oldSubscription, newSubscription }) {
  const { options } = oldSubscription ?? {};
  if (!newSubscription && options) await self.registration.pushManager.subscribe(options).catch(() => {});
  for (const client of await pages()) client.postMessage({ type: "subscription" });
}

/** Pages in the order in which they were looked at last. */
const pages = () => self.clients.matchAll({ type: "window", includeUncontrolled: true });

/** Whether a page says that a message was for its account. */
function ask(client, message) {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data }) => resolve(data === true);
    setTimeout(() => resolve(false), ANSWER_MS);
    client.postMessage(message, [port2]);
  });
}
