// Events for the stores, without a DOM.

/** Calls back: an error in there is reported, and does not break the caller. @param {() => void} callback */
export function isolate(callback) {
  try {
    callback();
  } catch (error) {
    Promise.reject(error);
  }
}

/** @template {Record<string, any>} Events */
export class Emitter {
  /** @type {Map<keyof Events, Set<(event: any) => void>>} */ #listeners = new Map();
  /** @type {Promise<void> | null} the end of the current task, if something changed in it */ #due = null;
  /** Calls `listener` on each event of this type, until the returned function is called.
   * @template {keyof Events} Type @param {Type} type @param {(event: Events[Type]) => void} listener */
  on(type, listener) {
    const listeners = this.#listeners.get(type) ?? new Set();
    this.#listeners.set(type, listeners.add(listener));
    return () => void listeners.delete(listener);
  }
  /** @template {keyof Events} Type @param {Type} type @param {Events[Type]} event */
  emit(type, event) {
    for (const listener of [...(this.#listeners.get(type) ?? [])]) isolate(() => listener(event));
  }
  /** Emits one "change" for all changes of the current task: many arrivals in one frame are drawn once. */
  changed() {
    const emit = () => ((this.#due = null), this.emit("change", /** @type {any} */ (undefined)));
    this.#due ??= Promise.resolve().then(emit);
  }
}
