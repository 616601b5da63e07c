-- Releases a node number.
-- KEYS: holder of the number; HASH number -> up to when its holders may have made ids, see lease.lua
-- ARGV: holder, number, until when the holder made ids: it makes none any more, so this replaces the lease's ceiling
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
local greatest = tonumber(redis.call('HGET', KEYS[2], 'all') or '0')
if tonumber(ARGV[3]) > greatest then redis.call('HSET', KEYS[2], 'all', ARGV[3]) end
return redis.call('DEL', KEYS[1])
