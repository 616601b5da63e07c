// Listeners of a small store.

export class Emitter {
  #listeners = new Set();

  /** Adds a listener; returns a function that removes it. */
  on(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  emit(...values) {
    for (const listener of [...this.#listeners]) listener(...values);
  }
}
