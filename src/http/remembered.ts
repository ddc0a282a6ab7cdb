/** The value of the key, made when it is first asked for. */
export function remembered<Key, Value>(values: Map<Key, Value>, key: Key, make: () => Value): Value {
  let value = values.get(key)
  if (value === undefined) values.set(key, (value = make()))
  return value
}
