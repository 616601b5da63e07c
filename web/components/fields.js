// Labelled fields of forms.

import { h } from "../dom.js";

/** A field below its label. */
export function labelled(input, text, hint) {
  const label = h("label", { for: input.id }, text, hint && h("span", { class: "meta", text: ` ${hint}` }));
  return h("div", { class: "field" }, label, input);
}

/** A choice of one of `options`, pairs of a value and its text. */
export function choice(properties, options, chosen) {
  const all = options.map(([value, text]) => h("option", { value, text, selected: value === chosen }));
  return h("select", { class: "input", ...properties }, ...all);
}

/** A box to tick, and what it means. */
export function tick(properties, text, hint) {
  const input = h("input", { type: "checkbox", ...properties });
  const words = h("span", {}, text, hint && h("span", { class: "meta", text: hint }));
  return { input, element: h("label", { class: "tick", for: input.id }, input, words) };
}
