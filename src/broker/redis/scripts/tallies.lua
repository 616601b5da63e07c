-- Reads tallies.
-- KEYS: one for each object
-- Returns {likes, comments, version} for each; the first is empty where none is kept.
local found = {}
for i = 1, #KEYS do
  local tally = redis.call('HMGET', KEYS[i], 'l', 'c', 'v')
  found[i] = {tally[1] or '', tally[2] or '', tally[3] or ''}
end
return found
