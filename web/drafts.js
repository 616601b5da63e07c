// What was begun to write, by user and place: it outlives a reload of the tab, and is gone once it was sent.

const PREFIX = "feedline.draft";

/** The drafts for which the browser has no storage: it is full, or forbidden. They do not outlive a reload. */
const unstored = new Map();

const keyOf = ({ user }, place) => `${PREFIX} ${user} ${place}`;

/** The draft of a session's user at a place, such as "home" or "reply 5"; null: there is none. */
export function draftAt(session, place) {
  const key = keyOf(session, place);
  if (unstored.has(key)) return unstored.get(key);
  try {
    return JSON.parse(sessionStorage.getItem(key));
  } catch {
    return null;
  }
}

/** Keeps a draft, or with null forgets it. */
export function keepDraft(session, place, draft) {
  const key = keyOf(session, place);
  unstored.delete(key);
  try {
    if (draft) sessionStorage.setItem(key, JSON.stringify(draft));
    else sessionStorage.removeItem(key);
  } catch {
    if (draft) unstored.set(key, draft);
    // An older version must not come back.
    try {
      sessionStorage.removeItem(key);
    } catch {
      // It is forbidden: there is none.
    }
  }
}

/** Forgets all drafts of the tab: their user signs out. */
export function forgetDrafts() {
  unstored.clear();
  try {
    for (const key of Object.keys(sessionStorage)) if (key.startsWith(PREFIX)) sessionStorage.removeItem(key);
  } catch {
    // Nothing is stored where storage is forbidden.
  }
}
