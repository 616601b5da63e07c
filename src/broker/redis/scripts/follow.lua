-- Reads the invalidation log on, and registers the node that does; see invalidate.lua.
-- KEYS: log, meta, registry
-- ARGV: run, new epoch, node, epoch that the node knows ('' if none), sequence number up to which it applied the log,
--       entries at most
-- Returns {epoch, last sequence number, entries after the node's if it is of this epoch}.
local call = redis.call
local time = call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local run, epoch, sequence = unpack(call('HMGET', KEYS[2], 'r', 'e', 's'))
if run ~= ARGV[1] then
  call('DEL', KEYS[1], KEYS[2], KEYS[3])
  epoch, sequence = ARGV[2], '0'
  call('HSET', KEYS[2], 'r', ARGV[1], 'e', epoch, 's', sequence, 'c', now)
end
call('ZADD', KEYS[3], now, ARGV[3])
local entries = {}
if epoch == ARGV[4] and sequence ~= ARGV[5] then
  entries = call('XRANGE', KEYS[1], '(0-' .. ARGV[5], '+', 'COUNT', ARGV[6])
end
return {epoch, sequence, entries}
