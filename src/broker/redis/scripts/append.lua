-- Appends to a log, and creates it if it does not exist. Its meta is a HASH:
--   e  epoch   t  last offset   r  the run of Redis that wrote it   v, l  last version (20 digits) and its life
-- KEYS: log, meta, counts, seed, and the idempotency key's mark if there is one
-- ARGV: run, milliseconds of a period, 1 if Redis may evict keys, kind, body, size, milliseconds the entries stay, the
--       same for the position, version ('' if none), its life, seconds the mark stays
-- Returns {epoch, offset, receivers}.
local call = redis.call
local log, meta, mark = KEYS[1], KEYS[2], KEYS[5]
if mark then
  local epoch, offset = unpack(call('HMGET', mark, 'e', 't'))
  if epoch then return {epoch, offset, 0} end
end
local run, epoch, offset, version, life = unpack(call('HMGET', meta, 'r', 'e', 't', 'v', 'l'))
-- A log that another run of Redis wrote may lack its end, and offsets must not be reused.
if run ~= ARGV[1] then
  call('DEL', log, meta)
  -- Clients that subscribed before the first entry have this epoch.
  epoch, offset, version = derived_epoch(log, KEYS[3], KEYS[4]), '0', false
  call('HSET', meta, 'r', ARGV[1], 'e', epoch)
end
if ARGV[9] ~= '' and version and life == ARGV[10] and ARGV[9] <= version then return {epoch, offset, 0} end

offset = string.format('%.0f', tonumber(offset) + 1)
call('XADD', log, 'MAXLEN', '~', ARGV[6], '0-' .. offset, ARGV[4], ARGV[5])
call('PEXPIRE', log, ARGV[7])
if ARGV[9] == '' then
  call('HSET', meta, 't', offset)
else
  call('HSET', meta, 't', offset, 'v', ARGV[9], 'l', ARGV[10])
end
call('PEXPIRE', meta, ARGV[8])
if mark then
  call('HSET', mark, 'e', epoch, 't', offset)
  call('EXPIRE', mark, ARGV[11])
end
return {epoch, offset, call('PUBLISH', log, '0-' .. offset .. ' ' .. epoch .. ' ' .. ARGV[4] .. ARGV[5])}
