-- Appends an entry to many logs, and creates those that do not exist. The meta of a log is a HASH:
--   e  epoch   t  last offset   r  the run of Redis that wrote it   v, l  last version (20 digits) and its life
-- KEYS: seed, then log, meta, counts of each, and the idempotency key's mark if there is one
-- ARGV: run, milliseconds of a period, 1 if Redis may evict keys, kind, body, size, milliseconds the entries stay, the
--       same for the position, version ('' if none), its life, seconds a mark stays, keys of a log, `=` if the logs
--       keep exactly their size, `~` if they may keep a few entries more
-- Returns for each log `<offset> <epoch> <receivers>`, or `!` and the reason if it could not be written.
local call, format = redis.call, string.format
local run, kind, body, size, stays, stays_known = ARGV[1], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local version, life, mark_stays, per_log, trim = ARGV[9], ARGV[10], ARGV[11], tonumber(ARGV[12]), ARGV[13]
local payload = ' ' .. kind .. body

local function append(log, meta, counts, mark)
  if mark then
    local epoch, offset = unpack(call('HMGET', mark, 'e', 't'))
    if epoch then return offset .. ' ' .. epoch .. ' 0' end
  end
  local wrote, epoch, offset, last, last_life = unpack(call('HMGET', meta, 'r', 'e', 't', 'v', 'l'))
  -- A log that another run of Redis wrote may lack its end, and offsets must not be reused.
  if wrote ~= run then
    call('DEL', log, meta)
    -- Clients that joined before the first entry have this epoch.
    epoch, offset, last = derived_epoch(log, counts, KEYS[1]), '0', false
    call('HSET', meta, 'r', run, 'e', epoch)
  end
  if version ~= '' and last and last_life == life and version <= last then return offset .. ' ' .. epoch .. ' 0' end

  offset = format('%.0f', tonumber(offset) + 1)
  local id = '0-' .. offset
  call('XADD', log, 'MAXLEN', trim, size, id, kind, body)
  call('PEXPIRE', log, stays)
  if version == '' then
    call('HSET', meta, 't', offset)
  else
    call('HSET', meta, 't', offset, 'v', version, 'l', life)
  end
  call('PEXPIRE', meta, stays_known)
  if mark then
    call('HSET', mark, 'e', epoch, 't', offset)
    call('EXPIRE', mark, mark_stays)
  end
  return offset .. ' ' .. epoch .. ' ' .. call('PUBLISH', log, id .. ' ' .. epoch .. payload)
end

local written, n = {}, 0
for i = 2, #KEYS, per_log do
  n = n + 1
  -- The failure of one log must not keep the others from being written.
  local done, outcome = pcall(append, KEYS[i], KEYS[i + 1], KEYS[i + 2], per_log > 3 and KEYS[i + 3])
  written[n] = done and outcome or '!' .. (outcome.err or outcome)
end
return written
