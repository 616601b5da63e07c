// Pushes to this browser: its subscription, the device that stands for it on the server, and what it shows.
//
// A browser has one subscription for all accounts and tabs of an origin. It belongs to the account that turned pushes
// on last, and to the session of that tab: signing out there ends it.

import { BASE } from "./base.js";
import { Emitter } from "./emitter.js";
import { newKey } from "./feedline/timeline.js";
import { currentLanguage } from "./i18n/index.js";
import { preference, setPreference } from "./preferences.js";

const WORKER = `${BASE}/service-worker.js`;
/** How long the browser's push service may take. Without internet, some browsers never answer. */
const TIMEOUT_MS = 10_000;
const LOCALES = { en: "en", zh: "zh-CN" };

/** The policy for the one script URL that the page makes; the content policy allows no other. */
let policy = null;

/** Why pushes cannot be turned on: `reason` is "denied", "dismissed", "timeout" or "refused". */
export class PushError extends Error {
  constructor(reason) {
    super(reason);
    this.reason = reason;
  }
}

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

  /** Turns pushes on, with the server's public key; from a click. Rejects with a PushError, or that of the server. */
  async enable(serverKey) {
    const permission = await Notification.requestPermission();
    if (permission !== "granted") throw new PushError(permission === "denied" ? "denied" : "dismissed");
    await this.#register(await subscribe(serverKey));
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

  async #register(subscription) {
    const { endpoint, keys } = subscription.toJSON();
    const { user, key } = this.#app.session;
    await this.#rpc("devices.register", {
      id: this.device,
      platform: "webpush",
      endpoint,
      ...keys,
      locale: LOCALES[currentLanguage()],
      time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
      app_version: browserName(),
    });
    setPreference("push", JSON.stringify({ user, key }));
    this.emit();
  }

  /** Registers again at each start, as the session or the language may be another. */
  async #refresh() {
    const subscription = await currentSubscription();
    if (subscription) return this.#register(subscription);
    await this.disable();
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

/** The subscription for the server's key, a new one if there is none. */
async function subscribe(serverKey) {
  const subscribing = newSubscription(serverKey);
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new PushError("timeout")), TIMEOUT_MS);
  });
  try {
    return await Promise.race([subscribing, late]);
  } catch (error) {
    // One that comes late belongs to nobody.
    subscribing.then((subscription) => subscription.unsubscribe()).catch(() => {});
    if (error instanceof PushError) throw error;
    throw new PushError(error.name === "NotAllowedError" ? "denied" : "refused");
  } finally {
    clearTimeout(timer);
  }
}

async function newSubscription(serverKey) {
  policy ??= globalThis.trustedTypes?.createPolicy("service-worker", { createScriptURL: () => WORKER });
  await navigator.serviceWorker.register(policy?.createScriptURL("") ?? WORKER);
  const { pushManager } = await navigator.serviceWorker.ready;
  const current = await pushManager.getSubscription();
  const key = current?.options.applicationServerKey;
  if (key && base64Url(key) !== serverKey) await current.unsubscribe();
  return pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: serverKey });
}

const base64Url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");

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

/** What the list of devices calls this browser: "Chromium 140 on Linux". */
function browserName() {
  const { brands = [], platform = "" } = navigator.userAgentData ?? {};
  const brand = brands.find((one) => !/not|chromium/i.test(one.brand)) ?? brands.find((one) => !/not/i.test(one.brand));
  const [, name = "", version = ""] = brand
    ? [null, brand.brand, brand.version]
    : (/(Firefox|Edg|Version)\/(\d+)/.exec(navigator.userAgent) ?? []);
  const known = [name === "Version" ? "Safari" : name, version].join(" ").trim();
  return [known || "Browser", platform].filter(Boolean).join(", ").slice(0, 64);
}
