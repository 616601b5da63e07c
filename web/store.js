// Who is signed in, remembered for as long as the tab lives. Each tab can be somebody else.

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

/** Remembers a session. A browser that forbids storage only forgets it on reload. */
export function saveSession(session) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(session));
  } catch {
    // The session goes on in memory.
  }
}

/** Forgets the session. */
export function clearSession() {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // There is nothing stored where storage is forbidden.
  }
}
