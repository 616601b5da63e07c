// What stands in for content: skeletons, empty lists, errors.

import { button, h } from "../dom.js";
import { t } from "../i18n/index.js";

/** Skeletons in the shape of posts. */
export function skeletons(number = 5) {
  const one = () =>
    h("div", { class: "skeleton" }, h("span", { class: "avatar" }), h("div", {}, h("i"), h("i"), h("i")));
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

/** An error, and a way to try again. */
export function failure(error, retry) {
  const again = retry && button({ class: "button", text: t("retry"), onclick: retry });
  const box = empty(t("failed"), messageOf(error), again);
  box.setAttribute("role", "alert");
  return box;
}

/** The sentence of an error, in the reader's language where the code says enough. */
export function messageOf(error) {
  if (!error) return "";
  if (["offline", "lost", "timeout", "unreachable"].includes(error.reason) || error.code === 0)
    return t("error.offline");
  if (error.reason === "rate_limited" || error.code === 429) return t("error.rate");
  if (error.code >= 500) return t("error.server");
  const text = error.message.trim();
  const sentence = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?。]$/.test(sentence) ? sentence : `${sentence}.`;
}

/** Shows skeletons only if loading takes longer than 150 ms. */
export function showWhenSlow(place, make) {
  const timer = setTimeout(() => place.replaceChildren(make()), 150);
  return () => clearTimeout(timer);
}
