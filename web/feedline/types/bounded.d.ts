/** Sets an entry of a map of bounded size, which forgets what was set longest ago.
 * @template Key, Value @param {Map<Key, Value>} map @param {Key} key @param {Value} value @param {number} limit */
export function remember<Key, Value>(map: Map<Key, Value>, key: Key, value: Value, limit: number): void;
