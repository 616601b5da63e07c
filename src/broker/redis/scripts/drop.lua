-- Drops a log or an inbox. A log is replaced by an empty one with a new epoch: the epoch derived for the channel may be
-- the one that the dropped log had. When the empty log expires, the derived epoch is a later one.
-- KEYS: log, meta
-- ARGV: run, new epoch, milliseconds that a position stays known, 1 if it is an inbox
local call = redis.call
local run = call('HGET', KEYS[2], 'r')
call('UNLINK', KEYS[1], KEYS[2])
if run == ARGV[1] and ARGV[4] == '0' then
  call('HSET', KEYS[2], 'r', run, 'e', ARGV[2], 't', '0')
  call('PEXPIRE', KEYS[2], ARGV[3])
end
