// The rows of a timeline: its posts, and the marks between them.

import { h, setText } from "../dom.js";
import { span } from "../format.js";
import { t } from "../i18n/index.js";

/**
 * Posts and marks as they follow each other. `readTo` is the post up to which the reader `me` had read: a mark is above
 * it, if others wrote newer ones and it is among those that are loaded.
 */
export function rowsOf(entries, marks, { readTo = 0, me = "" } = {}) {
  const rows = [];
  const isNew = ({ id, post }) => id > readTo && post.author !== me;
  const isRead = ({ id }) => id > 0 && id <= readTo;
  const isBetween = readTo > 0 && entries.some(isNew) && entries.some(isRead);
  const left = isBetween ? [...marks, { key: "read", kind: "read", below: readTo }] : [...marks];
  left.sort((one, other) => other.below - one.below);
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

/** What happened on the rail: a hollow node where the connection was lost, or a break; and how far was read. */
export class MarkCard {
  element;

  constructor(mark) {
    const testid = mark.kind === "read" ? "read-mark" : "recovered";
    this.element = h("div", { class: "node", data: { testid } }, h("span"));
    this.update(mark);
  }

  update({ kind, lostFor, posts }) {
    if (kind === "read") {
      this.element.dataset.kind = kind;
      return setText(this.element.firstChild, t("mark.read"));
    }
    this.element.dataset.kind = kind === "recovered" ? "recovered" : "gap";
    const key = kind !== "recovered" ? "mark.reloaded" : posts > 0 ? "mark.recovered" : "mark.nothing";
    setText(this.element.firstChild, t(key, { n: posts, span: span(lostFor) }));
  }
}
