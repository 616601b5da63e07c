// Who is signed in, remembered for as long as the tab lives. Each tab can be a different user.

const KEY = "feedline.session";

/** @typedef {{user: string, name: string, token: string, key: string}} Session */

/** The session of this tab, or null. */
export function loadSession() {
  try {
    const session = JSON.parse(sessionStorage.getItem(KEY));
    return session && typeof session.user === "string" && typeof session.token === "string" ? session : null;
  } catch {
    return null;
  }
}

/** Remembers a session. In a browser that forbids storage, a reload forgets it. */
export function saveSession(session) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(session));
  } catch {
    // The session continues in memory.
  }
}

/** Forgets the session. */
export function clearSession() {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // Nothing is stored where storage is forbidden.
  }
}
