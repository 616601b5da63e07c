// The rows of a timeline: its posts, and the marks between them.

import { h, setText } from "../dom.js";
import { span } from "../format.js";
import { t } from "../i18n/index.js";

/** Posts and marks as they follow each other. */
export function rowsOf(entries, marks) {
  const rows = [];
  const left = [...marks];
  for (const entry of entries) {
    while (left.length > 0 && entry.id !== 0 && entry.id <= left[0].below) rows.push(markRow(left.shift()));
    rows.push({ key: entry.key, value: entry, mark: false });
  }
  return rows.concat(left.map(markRow));
}

function markRow(mark) {
  return { key: mark.key, value: mark, mark: true };
}

/** Whether an element is on screen. */
export function inView(element) {
  if (!element?.isConnected) return false;
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}

/** What happened on the rail: a hollow node where the connection was lost, or a break. */
export class MarkCard {
  element = h("div", { class: "node", data: { testid: "recovered" } }, h("span"));

  constructor(mark) {
    this.update(mark);
  }

  update({ kind, lostFor, posts }) {
    this.element.dataset.kind = kind === "recovered" ? "recovered" : "gap";
    const key = kind !== "recovered" ? "mark.reloaded" : posts > 0 ? "mark.recovered" : "mark.nothing";
    setText(this.element.firstChild, t(key, { n: posts, span: span(lostFor) }));
  }
}
