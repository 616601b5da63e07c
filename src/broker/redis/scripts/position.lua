-- The position of a log, for a reader. Creates no keys for a log without a write.
-- KEYS: log, meta, counts, epochs
-- ARGV: run, milliseconds of a period, milliseconds that a position is kept for readers
-- Returns {epoch, offset}.
local call = redis.call
local run, epoch, offset, set = unpack(call('HMGET', KEYS[2], 'r', 'e', 't', 'x'))
if run ~= ARGV[1] then return {derived_epoch(KEYS[1], KEYS[3], KEYS[4], true), '0'} end
keep_position(KEYS[2], set)
return {epoch, offset}
