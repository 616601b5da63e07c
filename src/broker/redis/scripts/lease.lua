-- Leases a number, or renews the lease.
-- KEYS: one for each number, in the order in which to try
-- ARGV: holder, milliseconds
-- Returns the index of the key that the holder has, 0 if all are taken.
local holders = redis.call('MGET', unpack(KEYS))
local free = 0
for i = 1, #KEYS do
  if holders[i] == ARGV[1] then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
    return i
  end
  if free == 0 and not holders[i] then free = i end
end
if free > 0 then redis.call('SET', KEYS[free], ARGV[1], 'PX', ARGV[2]) end
return free
