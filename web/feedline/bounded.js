// What is remembered, but not for ever.

/**
 * A map of bounded size: it forgets what was set longest ago.
 * @template Key, Value
 * @extends {Map<Key, Value>}
 */
export class BoundedMap extends Map {
  #limit;

  /** @param {number} limit the most entries */
  constructor(limit) {
    super();
    this.#limit = limit;
  }

  /** @param {Key} key @param {Value} value */
  set(key, value) {
    this.delete(key);
    super.set(key, value);
    if (this.size > this.#limit) this.delete(/** @type {Key} */ (this.keys().next().value));
    return this;
  }
}
