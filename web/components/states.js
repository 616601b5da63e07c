// What stands in for content: skeletons, empty lists, errors.

import { button, h } from "../dom.js";
import { t } from "../i18n/index.js";

/** The least time for which skeletons are shown, and the time without them before. */
const SKELETON_MS = 150;

/** After which time a view says that it waits for the line. */
const WAITING_MS = 1_500;

/** Reasons of errors that say nothing about the request: the server was not reached, or did not answer. */
const OUT_OF_REACH = ["offline", "lost", "timeout", "unreachable"];

/** Skeletons in the shape of what comes: "post", "person" or "line". */
export function skeletons(number = 5, shape = "post") {
  const bars = { post: 3, person: 2, line: 1 }[shape];
  const one = () =>
    h(
      "div",
      { class: "skeleton", data: { shape } },
      shape !== "line" && h("span", { class: "avatar" }),
      h("div", {}, ...Array.from({ length: bars }, () => h("i"))),
    );
  return h(
    "div",
    { class: "skeletons", role: "status", "aria-label": t("loading") },
    ...Array.from({ length: number }, one),
  );
}

/** An empty state: what is missing, and what to do. */
export function empty(title, text, action) {
  return h(
    "div",
    { class: "empty", data: { testid: "empty" } },
    h("h2", { text: title }),
    text && h("p", { text }),
    action,
  );
}

/** What was not loaded because the line was down. */
const waiting = new Set();
let isLive = false;

/** The line is live, or it is not. When it is live again, what waits for it is loaded. */
export function lineChanged(live) {
  isLive = live;
  if (!live) return;
  const retries = [...waiting];
  waiting.clear();
  for (const retry of retries) retry();
}

/** Loads something again when the line is live. */
export const retryWhenLive = (retry) => void waiting.add(retry);

/** Whether an error says that the server was not reached. */
export const isUnreachable = (error) => OUT_OF_REACH.includes(error?.reason) || error?.code === 0;

/** An error, and a way to try again. What could not be reached waits for the line, and is then loaded by itself. */
export function failure(error, retry) {
  // Asking again changes nothing.
  if (error?.reason === "locked") return empty(messageOf(error));
  const again = retry && button({ class: "button", text: t("retry"), onclick: retry });
  const waits = isUnreachable(error) && Boolean(retry);
  const box = waits ? empty(t("waiting"), "", again) : empty(t("failed"), messageOf(error), again);
  if (waits) retryWhenLive(retry);
  box.setAttribute("role", waits ? "status" : "alert");
  return box;
}

/** The sentence of an error, in the reader's language. The server's own words, which are English, may be a part. */
export function messageOf(error) {
  if (!error) return "";
  if (isUnreachable(error)) return t("error.offline");
  if (error.reason === "rate_limited" || error.code === 429) return t("error.rate");
  if (error.code >= 500) return t("error.server");
  const why = error.message.trim().replace(/\.$/, "");
  const key = `error.${error.reason}`;
  const sentence = t(key, { why });
  return sentence === key ? t("error.other", { why }) : sentence;
}

/** What is said of a post or comment that moderators removed, which its author alone sees. */
export const removalText = ({ reason = "" }) => t("removed", { why: reason });

/**
 * Shows skeletons only if loading takes longer than 150 ms, and then for as long at least. Returns what to call, and to
 * wait for, when it is loaded.
 */
export function showWhenSlow(place, make) {
  let shownAt = 0;
  const timer = setTimeout(() => {
    shownAt = Date.now();
    place.replaceChildren(make());
  }, SKELETON_MS);
  const slow = setTimeout(() => {
    if (isLive) return;
    const box = empty(t("waiting"));
    box.setAttribute("role", "status");
    place.replaceChildren(box);
  }, WAITING_MS);
  return async () => {
    clearTimeout(timer);
    clearTimeout(slow);
    const left = shownAt + SKELETON_MS - Date.now();
    if (left > 0) await new Promise((resolve) => setTimeout(resolve, left));
  };
}
