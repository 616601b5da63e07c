-- Where a log stands; one that does not exist gets an epoch.
-- KEYS: log, meta
-- ARGV: run, new epoch, milliseconds the position stays at least
-- Returns {epoch, offset}.
local call = redis.call
local run, epoch, offset = unpack(call('HMGET', KEYS[2], 'r', 'e', 't'))
if run ~= ARGV[1] then
  call('DEL', KEYS[1], KEYS[2])
  epoch, offset = ARGV[2], '0'
  call('HSET', KEYS[2], 'r', ARGV[1], 'e', epoch, 't', offset)
  call('PEXPIRE', KEYS[2], ARGV[3])
else
  call('PEXPIRE', KEYS[2], ARGV[3], 'GT')
end
return {epoch, offset}
