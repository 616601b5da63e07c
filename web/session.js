// Who is signed in: one account for the browser, and another one in a tab that asks for it.

const KEY = "feedline.session";

/** Stands in the storage of a tab that is to have an account of its own, and has none yet. */
const NONE = "none";

/** @typedef {{user: string, name: string, token: string, key: string}} Session */

// A browser may forbid storage: the session is then in memory, and a reload forgets it.
const get = (storage) => {
  try {
    return window[storage].getItem(KEY);
  } catch {
    return null;
  }
};

const set = (storage, value) => {
  try {
    if (value === null) window[storage].removeItem(KEY);
    else window[storage].setItem(KEY, value);
  } catch {
    // Nothing is stored where storage is forbidden.
  }
};

const parse = (text) => {
  try {
    const session = JSON.parse(text);
    return session && typeof session.user === "string" && typeof session.token === "string" ? session : null;
  } catch {
    return null;
  }
};

const place = () => (get("sessionStorage") === null ? "localStorage" : "sessionStorage");

/** The session of this tab, or null. */
export const loadSession = () => parse(get(place()));

/** The session of the browser, if this tab does not use it; or null. */
export const otherSession = () => (place() === "sessionStorage" ? parse(get("localStorage")) : null);

/** Remembers a new session. */
export const saveSession = (session) => set(place(), JSON.stringify(session));

/** Remembers what has changed of a session, unless another tab has ended it. */
export function updateSession(session) {
  if (loadSession()?.key === session.key) saveSession(session);
}

/** Forgets a session, but not one that has taken its place. */
export function clearSession(session) {
  if (loadSession()?.key !== session?.key) return;
  set(place(), place() === "sessionStorage" ? NONE : null);
}

/** From now on this tab has an account of its own, or that of the browser. */
export const setOwnAccount = (isOwn) => set("sessionStorage", isOwn ? NONE : null);

/** Calls back with the session of this tab, or null, when another tab has signed in or out. */
export function watchSession(changed) {
  addEventListener("storage", ({ storageArea, key }) => {
    if (storageArea !== localStorage || (key !== KEY && key !== null) || place() !== "localStorage") return;
    changed(loadSession());
  });
}
