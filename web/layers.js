// What lies above a view, such as a dialog. Each layer has an entry in the history, so that Back takes it away, and not
// the view below.

import { newKey } from "./feedline/timeline.js";

/** How long the browser may take to go back to the entry of the view. */
const RETURN_MS = 500;

/** The open layers, the uppermost last: `{id, close}`. */
const layers = [];
let returning = null;

/** Adds a layer that `close` takes away. Returns what to call when it was closed otherwise. */
export function addLayer(close) {
  const layer = { id: newKey(), close };
  layers.push(layer);
  history.pushState({ ...history.state, layer: layer.id }, "");
  return () => {
    const at = layers.indexOf(layer);
    if (at < 0) return;
    layers.splice(at, 1);
    if (history.state?.layer !== layer.id) return;
    returning = new Promise((resolve) => {
      addEventListener("popstate", resolve, { once: true });
      setTimeout(resolve, RETURN_MS);
    }).then(() => (returning = null));
    history.back();
  };
}

/** Closes the layers above the one with this id, or all. */
export function closeLayers(id = undefined) {
  while (layers.length > 0 && layers.at(-1).id !== id) layers.pop().close();
}

/** Resolves when the browser is back at the view's entry; null if it is there. */
export const untilReturned = () => returning;
