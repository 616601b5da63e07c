// The views of a signed-in user, by name. Home is a part of the first script; the others come in the second one.

import { GIVEN } from "../base.js";
import { homeView } from "./home.js";
import { notFoundView } from "./not-found.js";

const PAUSE_MS = 500;
const MAX_PAUSE_MS = 8_000;

/** How often the second script may be that of another build before loading it is given up. */
const MAX_MISMATCHES = 3;

/** Events of somebody who may leave Home next. */
const USER_EVENTS = ["pointermove", "pointerdown", "keydown", "scroll"];

let second = null;
let loading = null;
let isExpected = false;
let loaded;
/** Resolves with the second script, once it was loaded for whatever reason. */
const secondLoaded = new Promise((resolve) => (loaded = resolve));

/** Whether the script with a view is there. */
export const isLoaded = ({ name }) => name === "home" || second !== null;

/** Loads the second script, and waits for the server. Fails if the server has another build than the page. */
export const loadSecondScript = () => (loading ??= load());

/** Loads the second script at once, or as soon as somebody does anything on the page. */
export function expectSecondScript(isNeeded) {
  if (isExpected) return;
  isExpected = true;
  const expected = () => loadSecondScript().catch(() => {});
  if (isNeeded) expected();
  else for (const name of USER_EVENTS) addEventListener(name, expected, { once: true, passive: true });
}

async function load() {
  let mismatches = 0;
  for (let tries = 0; !second; tries += 1) {
    try {
      // By its address, because the server sends this module as a part of the joined script. A browser may remember
      // that an address failed.
      second = await import(`${GIVEN.more}${tries ? `?${tries}` : ""}`);
    } catch (error) {
      mismatches += error instanceof SyntaxError ? 1 : 0;
      if (mismatches === MAX_MISMATCHES) {
        loading = null;
        throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, Math.min(MAX_PAUSE_MS, PAUSE_MS * 2 ** tries)));
    }
  }
  loaded(second);
  return second;
}

/**
 * Makes the view of a route, whose script is there: `{title, element}`, and if it needs them `feed` (for the keyboard),
 * `compose`, `ready`, `top()`, `resume()` (it is shown), `pause()` (it is left, and kept) and `stop()` (it is
 * forgotten).
 */
export function signedInViews(app, { name, params }) {
  // Home is one view, however often it is in the history: it has what was begun to write, and the timeline.
  if (name === "home") return (app.home ??= homeView(app, secondLoaded));
  return (second.views[name] ?? notFoundView)(app, params);
}
