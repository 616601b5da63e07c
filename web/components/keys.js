// The keys of the page, in a dialog.

import { h } from "../dom.js";
import { tm } from "../i18n/more.js";
import { openDialog } from "./dialog.js";

const KEYS = [
  ["j", "keys.next"],
  ["k", "keys.previous"],
  ["Enter", "keys.open"],
  ["l", "keys.like"],
  ["n", "keys.write"],
  ["u", "keys.undo"],
  ["/", "keys.search"],
  ["g", "keys.home"],
  ["?", "keys.help"],
];

export function showKeys() {
  const rows = KEYS.flatMap(([key, label]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: tm(label) })]);
  openDialog(tm("keys"), h("dl", { class: "keys" }, ...rows), { sheet: true, testid: "keys" });
}
