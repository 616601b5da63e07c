-- Appends to a log that comes into being with it. Its meta is a HASH:
--   e  epoch   t  last offset   r  the run of Redis that wrote it   v, l  last version (20 digits) and its life
-- KEYS: log, meta, counts, seed, and the idempotency key's mark if there is one
-- ARGV: run, milliseconds of a period, kind, body, size, milliseconds the entries stay, the same for the position,
--       version ('' if none), its life, seconds the mark stays
-- Returns {epoch, offset, receivers}.
local call = redis.call
local log, meta, mark = KEYS[1], KEYS[2], KEYS[5]
if mark then
  local epoch, offset = unpack(call('HMGET', mark, 'e', 't'))
  if epoch then return {epoch, offset, 0} end
end
local run, epoch, offset, version, life = unpack(call('HMGET', meta, 'r', 'e', 't', 'v', 'l'))
-- A log that another run of Redis wrote may lack its end, and offsets must not be handed out twice.
if run ~= ARGV[1] then
  call('DEL', log, meta)
  -- Clients that came before the first entry have this epoch.
  epoch, offset, version = derived_epoch(ARGV[1], log, KEYS[3], KEYS[4], ARGV[2]), '0', false
  call('HSET', meta, 'r', ARGV[1], 'e', epoch)
end
if ARGV[8] ~= '' and version and life == ARGV[9] and ARGV[8] <= version then return {epoch, offset, 0} end

offset = string.format('%.0f', tonumber(offset) + 1)
call('XADD', log, 'MAXLEN', '~', ARGV[5], '0-' .. offset, ARGV[3], ARGV[4])
call('PEXPIRE', log, ARGV[6])
if ARGV[8] == '' then
  call('HSET', meta, 't', offset)
else
  call('HSET', meta, 't', offset, 'v', ARGV[8], 'l', ARGV[9])
end
call('PEXPIRE', meta, ARGV[7])
if mark then
  call('HSET', mark, 'e', epoch, 't', offset)
  call('EXPIRE', mark, ARGV[10])
end
return {epoch, offset, call('PUBLISH', log, '0-' .. offset .. ' ' .. epoch .. ' ' .. ARGV[3] .. ARGV[4])}
