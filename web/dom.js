// Building the document. Text enters it as text nodes and attributes, never as markup.

import { withoutDirections } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

/**
 * Makes an element. Members of `properties` are attributes, except `on…` (listeners), `class`, `text` and `data` (the
 * dataset). `true` sets an empty attribute; `false`, `null` and `undefined` leave it out, as they do for children.
 */
export function h(name, properties = {}, ...children) {
  return fill(document.createElement(name), properties, children);
}

/** Makes an SVG element. */
export function svg(name, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, name), properties, children);
}

function fill(element, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "text") element.textContent = value;
    else if (key === "data") Object.assign(element.dataset, value);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** A button with an icon, a label or both. Without a visible label, `label` names it for screen readers. */
export function button(properties, ...children) {
  return h("button", { type: "button", ...properties }, ...children);
}

/** A name kept from turning the direction of the text beside it: also by characters that would end the isolation. */
export function bidi(text) {
  return h("bdi", { text: withoutDirections(text) });
}

/** Sets the text of an element only if it changes, so that live regions do not repeat themselves. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Shows or hides an element without touching it when nothing changes. */
export function show(element, visible) {
  if (element.hidden === visible) element.hidden = !visible;
}

const REDUCED = matchMedia("(prefers-reduced-motion: reduce)");

/** Slides new elements in, in 160 ms; at once under reduced motion. */
export function slideIn(elements) {
  if (REDUCED.matches) return;
  // Measured together: one layout for all.
  const heights = elements.map((element) => element.offsetHeight);
  elements.forEach((element, at) =>
    element.animate(
      [
        { height: "0px", opacity: 0, overflow: "hidden" },
        { height: `${heights[at]}px`, opacity: 1, overflow: "hidden" },
      ],
      { duration: 160, easing: "ease-out" },
    ),
  );
}

/** Slides an element out and removes it. */
export function slideOut(element) {
  if (REDUCED.matches || !element.isConnected || document.hidden) return element.remove();
  element.inert = true;
  element.dataset.leaving = "";
  const frames = [
    { height: `${element.offsetHeight}px`, opacity: 1 },
    { height: "0px", opacity: 0 },
  ];
  for (const frame of frames) Object.assign(frame, { overflow: "hidden" });
  element.animate(frames, { duration: 160, easing: "ease-out" }).finished.finally(() => element.remove());
}
