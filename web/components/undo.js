// What is done to other users, said in a toast that can take it back.

import { tm } from "../i18n/more.js";
import { setRelation } from "../relations.js";
import { openMenu } from "./menu.js";
import { messageOf } from "./states.js";

/** What is said when it was done, by the verb of the operation. */
const DONE = {
  unfollow: "unfollowed.name",
  mute: "muted.name",
  hide: "hidden.name",
  block: "blocked.name",
  reposts_off: "reposts_off.done",
};

const OPPOSITES = { reposts_off: "reposts_on", reposts_on: "reposts_off" };
const opposite = (verb) => OPPOSITES[verb] ?? (verb.startsWith("un") ? verb.slice(2) : `un${verb}`);

/** Does something, and says so; `undo()` takes it back. Both may fail, and say why. */
export async function doWithUndo(app, work, done, undo) {
  try {
    await work();
    app.toast(done, undo && (() => doWithUndo(app, undo, tm("relation.undone"))));
  } catch (error) {
    app.toast(messageOf(error));
  }
}

/** Unfollows, mutes, hides from or blocks a person, or takes that back. `more` is what the operation takes besides. */
export function changeRelation(app, verb, { id, name }, more) {
  let wasFollowed = false;
  const work = async () => {
    // A block ends follows: its way back restores that of the reader.
    // Who blocks the reader has no profile to read, and can be blocked nevertheless.
    if (verb === "block") {
      const profile = await app.client.connection.rpc("users.get", { id }).catch(() => null);
      wasFollowed = profile?.edges.following ?? false;
    }
    await setRelation(app, verb, id, more);
  };
  const undo = async () => {
    await setRelation(app, opposite(verb), id);
    if (wasFollowed) await setRelation(app, "follow", id);
  };
  return doWithUndo(app, work, tm(DONE[verb] ?? "relation.undone", { name }), undo);
}

const DAY_MS = 86_400_000;
/** For how many days somebody may be muted; null: for good. */
const SPANS = { day: 1, week: 7, good: null };

/** The item of the menu of `anchor` that asks for how long a person is muted. */
export const muteForItem = (app, anchor, person) => ({
  label: tm("mute.for"),
  testid: "mute-for",
  run: () => {
    const mute = (days) => changeRelation(app, "mute", person, days && { until: Date.now() + days * DAY_MS });
    const choices = Object.entries(SPANS).map(([span, days]) => ({
      label: tm(`mute.${span}`),
      testid: `mute-${span}`,
      run: () => mute(days),
    }));
    openMenu(anchor, tm("mute.for"), choices);
  },
});
