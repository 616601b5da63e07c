// Pushes to this browser: its subscription, the device that stands for it on the server, and what it shows.
//
// A browser has one subscription for all accounts and tabs of an origin. It belongs to the account that turned pushes
// on last, and to the session of that tab: signing out there ends it. `push-setup.js` turns them on.

import { BASE } from "./base.js";
import { Emitter } from "./emitter.js";
import { newKey } from "./feedline/timeline.js";
import { preference, setPreference } from "./preferences.js";

/** The address of the service worker. */
export const WORKER = `${BASE}/service-worker.js`;

/** Whether this browser can receive pushes here. */
export const isPushPossible = () =>
  isSecureContext && "serviceWorker" in navigator && "PushManager" in window && "Notification" in window;

export class Push extends Emitter {
  #app;
  #stops = [];

  /** For the account that the app has open. */
  constructor(app) {
    super();
    this.#app = app;
    if (!isPushPossible()) return;
    const { client } = app;
    const onMessage = (event) => this.#message(event);
    const onStorage = ({ key }) => key === "feedline.push" && this.emit();
    navigator.serviceWorker.addEventListener("message", onMessage);
    addEventListener("storage", onStorage);
    this.#stops = [
      () => navigator.serviceWorker.removeEventListener("message", onMessage),
      () => removeEventListener("storage", onStorage),
      client.notifications.on("change", () => this.#showUnread(client.notifications)),
    ];
    if (this.isOn) this.#refresh().catch(() => {});
  }

  close() {
    for (const stop of this.#stops.splice(0)) stop();
  }

  /** The id of this browser among the devices of any account. */
  get device() {
    const known = preference("device", "");
    if (!known) setPreference("device", `web-${newKey()}`);
    return known || preference("device", "web");
  }

  /** The account that receives pushes here: `{user, key}`, or null. */
  get owner() {
    try {
      return JSON.parse(preference("push", "null"));
    } catch {
      return null;
    }
  }

  /** Whether the account of this tab receives pushes here. */
  get isOn() {
    return isPushPossible() && Notification.permission === "granted" && this.owner?.user === this.#app.session?.user;
  }

  /** Turns pushes to this account off. */
  async disable() {
    await this.#rpc("devices.remove", { id: this.device });
    await this.#forget();
  }

  /** The session of this tab ends: so do its pushes. The server ends its devices by itself. */
  signOut() {
    this.close();
    if (this.isOn && this.owner.key === this.#app.session.key) this.#forget().catch(() => {});
  }

  #rpc(method, params) {
    return this.#app.client.connection.rpc(method, params);
  }

  /** This browser is now a device of the account of this tab. */
  claim() {
    const { user, key } = this.#app.session;
    setPreference("push", JSON.stringify({ user, key }));
    this.emit();
  }

  /** Registers again at each start, as the session or the language may be another. */
  async #refresh() {
    const subscription = await currentSubscription();
    if (!subscription) return this.disable();
    const second = await this.#app.secondScript();
    await second?.registerDevice(this.#app, subscription);
  }

  /** Ends the subscription, and withdraws what is shown. */
  async #forget() {
    setPreference("push", "null");
    this.emit();
    await Promise.all([withdrawAll(), setBadge(0)]);
    await (await currentSubscription())?.unsubscribe();
  }

  #message({ data, ports: [port] }) {
    if (!this.isOn) return;
    if (data.type === "subscription") this.#refresh().catch(() => {});
    if (data.type !== "open") return;
    port.postMessage(true);
    if (data.notification) this.#app.client.notifications.markRead(data.notification);
    this.#app.router.go(data.path);
  }

  /** What is read here is withdrawn here: the server clears only other devices. */
  #showUnread({ state, unread }) {
    if (!this.isOn || state !== "ready") return;
    setBadge(unread);
    if (unread === 0) withdrawAll().catch(() => {});
  }
}

async function currentSubscription() {
  const registration = await navigator.serviceWorker.getRegistration(WORKER);
  return (await registration?.pushManager.getSubscription()) ?? null;
}

async function withdrawAll() {
  const registration = await navigator.serviceWorker.getRegistration(WORKER);
  for (const shown of (await registration?.getNotifications()) ?? []) shown.close();
}

/** The badge of the installed page. */
const setBadge = (number) => navigator.setAppBadge?.(number).catch(() => {});
