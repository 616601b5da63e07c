// What is done to other users, said in a toast that can take it back.

import { t } from "../i18n/index.js";
import { setRelation } from "../relations.js";
import { messageOf } from "./states.js";

/** What is said when it was done, by the verb of the operation. */
const DONE = { unfollow: "unfollowed.name", mute: "muted.name", hide: "hidden.name", block: "blocked.name" };

const opposite = (verb) => (verb.startsWith("un") ? verb.slice(2) : `un${verb}`);

/** Does something, and says so; `undo()` takes it back. Both may fail, and say why. */
export async function doWithUndo(app, work, done, undo) {
  try {
    await work();
    app.toast(done, undo && (() => doWithUndo(app, undo, t("relation.undone"))));
  } catch (error) {
    app.toast(messageOf(error));
  }
}

/** Unfollows, mutes, hides from or blocks a person, or takes that back. */
export function changeRelation(app, verb, { id, name }) {
  let wasFollowed = false;
  const work = async () => {
    // A block ends follows: its way back restores that of the reader.
    // Who blocks the reader has no profile to read, and can be blocked nevertheless.
    if (verb === "block") {
      const profile = await app.client.connection.rpc("users.get", { id }).catch(() => null);
      wasFollowed = profile?.edges.following ?? false;
    }
    await setRelation(app, verb, id);
  };
  const undo = async () => {
    await setRelation(app, opposite(verb), id);
    if (wasFollowed) await setRelation(app, "follow", id);
  };
  return doWithUndo(app, work, t(DONE[verb] ?? "relation.undone", { name }), undo);
}
