/** What a store shows, drawn anew when that changes. The state of the connection is an event of its own: "state".
 * @template {import("./emitter.js").Emitter<any>} Store @template Shown
 * @param {Store} store @param {(store: Store) => Shown} read returns the same object until something changed
 * @returns {Shown} */
export function useStore<Store extends import("./emitter.js").Emitter<any>, Shown>(store: Store, read: (store: Store) => Shown, event?: string): Shown;
