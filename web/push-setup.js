// Turning on pushes to this browser: its subscription at its push service, and the device that stands for it here.

import { currentLanguage } from "./i18n/index.js";
import { WORKER } from "./push.js";

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

/** Turns pushes on, with the server's public key; from a click. Rejects with a PushError, or that of the server. */
export async function enablePush(app, serverKey) {
  const permission = await Notification.requestPermission();
  if (permission !== "granted") throw new PushError(permission === "denied" ? "denied" : "dismissed");
  await registerDevice(app, await subscribe(serverKey));
}

/** Makes this browser a device of the account that the app has open. */
export async function registerDevice({ client, push }, subscription) {
  const { endpoint, keys } = subscription.toJSON();
  await client.connection.rpc("devices.register", {
    id: push.device,
    platform: "webpush",
    endpoint,
    ...keys,
    locale: LOCALES[currentLanguage()],
    time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    app_version: browserName(),
  });
  push.claim();
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
