// The hook for React: `const entries = useStore(feedline.timeline, (timeline) => timeline.entries)`.

import { useCallback, useSyncExternalStore } from "react";

/** What a store shows, drawn anew when that changes. The state of the connection is an event of its own: "state".
 * @template {import("./emitter.js").Emitter<any>} Store @template Shown
 * @param {Store} store @param {(store: Store) => Shown} read returns the same object until something changed
 * @returns {Shown} */
export function useStore(store, read, event = "change") {
  const subscribe = useCallback((/** @type {() => void} */ drawn) => store.on(event, drawn), [store, event]);
  const snapshot = () => read(store);
  return useSyncExternalStore(subscribe, snapshot, snapshot);
}
