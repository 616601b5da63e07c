-- Appends to the invalidation log and notifies all nodes. Its meta is a HASH:
--   r  the run of Redis that wrote it   e  epoch   s  last sequence number   c  when the epoch began, in milliseconds
-- The registry is a ZSET: node -> when it last read the log, in milliseconds of this server's clock.
-- KEYS: log, meta, registry
-- ARGV: run, new epoch, entries kept, milliseconds that a node stays registered, node, pub/sub channel, invalidations
-- Returns {epoch, sequence number, milliseconds since the epoch began, registered nodes}.
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local run, epoch, sequence, began = unpack(call('HMGET', KEYS[2], 'r', 'e', 's', 'c'))
if run ~= ARGV[1] then
  call('DEL', KEYS[1], KEYS[2], KEYS[3])
  epoch, sequence, began = ARGV[2], '0', now
  call('HSET', KEYS[2], 'r', ARGV[1], 'e', epoch, 'c', string.format('%.0f', now))
end
sequence = string.format('%.0f', tonumber(sequence) + 1)
call('HSET', KEYS[2], 's', sequence)
call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '0-' .. sequence, 'o', ARGV[5], 'i', ARGV[7])
call('PUBLISH', ARGV[6], ARGV[5] .. ' ' .. epoch .. ' ' .. sequence .. ' ' .. ARGV[7])
-- Bounded: at most 255 nodes live at once, and those that stopped are removed here.
call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. string.format('%.0f', now - ARGV[4]))
return {epoch, sequence, now - tonumber(began), call('ZRANGE', KEYS[3], 0, -1)}
