// What is remembered, but not for ever.

/** Sets an entry of a map of bounded size, which forgets what was set longest ago.
 * @template Key, Value @param {Map<Key, Value>} map @param {Key} key @param {Value} value @param {number} limit */
export function remember(map, key, value, limit) {
  map.delete(key);
  map.set(key, value);
  if (map.size > limit) map.delete(/** @type {Key} */ (map.keys().next().value));
}
