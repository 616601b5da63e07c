// The session of this tab, stored until the tab is closed. Each tab can have another user.

const KEY = "feedline.session";

/** @typedef {{user: string, name: string, token: string}} Session */

/** The session of this tab, or null. */
export function loadSession() {
  try {
    const session = JSON.parse(sessionStorage.getItem(KEY));
    return session && typeof session.user === "string" && typeof session.token === "string" ? session : null;
  } catch {
    return null;
  }
}

/** Stores a session. In a browser that forbids storage, it ends at the next reload. */
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
