-- The position of a log. Writes nothing for a log without a write.
-- KEYS: log, meta, counts, seed
-- ARGV: run, milliseconds of a period, 1 if Redis may evict keys, milliseconds the position stays at least
-- Returns {epoch, offset}.
local call = redis.call
local run, epoch, offset = unpack(call('HMGET', KEYS[2], 'r', 'e', 't'))
if run ~= ARGV[1] then return {derived_epoch(KEYS[1], KEYS[3], KEYS[4]), '0'} end
call('PEXPIRE', KEYS[2], ARGV[4], 'GT')
return {epoch, offset}
