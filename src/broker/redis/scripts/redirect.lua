-- Publishes hints again that reached a connection which is no receiver of them; see node_hints.rs.
-- KEYS: log, meta of each inbox
-- ARGV: connection, entry, then offset and epoch of each
local call = redis.call
for i = 1, #KEYS, 2 do
  local meta = KEYS[i + 1]
  if call('HGET', meta, 'c') == ARGV[1] then call('HDEL', meta, 'c') end
  call('PUBLISH', KEYS[i], '0-' .. ARGV[i + 2] .. ' ' .. ARGV[i + 3] .. ' ' .. ARGV[2])
end
return #KEYS / 2
