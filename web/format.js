// Times and numbers as readers write them.

import { h } from "./dom.js";
import { locale, t } from "./i18n/index.js";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A time relative to now: "now", "2 min", "3 h", "yesterday"; after a week the date. */
export function ago(then, now = Date.now()) {
  const passed = now - then;
  if (passed < MINUTE) return t("time.now");
  if (passed < HOUR) return t("time.minutes", { n: Math.floor(passed / MINUTE) });
  if (passed < DAY) return t("time.hours", { n: Math.floor(passed / HOUR) });
  if (passed < 7 * DAY) return t("time.days", { n: Math.floor(passed / DAY) });
  const sameYear = new Date(then).getFullYear() === new Date(now).getFullYear();
  const day = { month: "short", day: "numeric", ...(!sameYear && { year: "numeric" }) };
  return new Date(then).toLocaleDateString(locale(), day);
}

/** A span of time in words: "14 s", "3 min". */
export function span(ms) {
  if (ms < MINUTE) return t("span.seconds", { n: Math.max(1, Math.round(ms / SECOND)) });
  if (ms < HOUR) return t("span.minutes", { n: Math.round(ms / MINUTE) });
  return t("span.hours", { n: Math.round(ms / HOUR) });
}

/** A number, short where it is long: "12", "1.2K". */
export function count(n) {
  return n < 10_000 ? n.toLocaleString(locale()) : n.toLocaleString(locale(), { notation: "compact" });
}

/** The date. */
export function day(ms) {
  return new Date(ms).toLocaleDateString(locale(), { dateStyle: "medium" });
}

/** The whole date and time. */
export function moment(ms) {
  return new Date(ms).toLocaleString(locale(), { dateStyle: "medium", timeStyle: "short" });
}

/** A relative time that `refreshTimes` keeps right. */
export function timeElement(ms) {
  return h("time", { datetime: new Date(ms).toISOString(), title: moment(ms), text: ago(ms), data: { ago: ms } });
}

/** Writes relative times again; called every half minute and when the tab is shown. */
export function refreshTimes(root = document) {
  for (const time of root.querySelectorAll("time[data-ago]")) {
    const text = ago(Number(time.dataset.ago));
    if (time.textContent !== text) time.textContent = text;
  }
}
