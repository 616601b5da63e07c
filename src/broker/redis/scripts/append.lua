-- Appends an entry to many logs, and creates those that do not exist. The meta of a log is a HASH:
--   e  epoch   t  last offset   r  the run of Redis that wrote it   v, l  last version (20 digits) and its life
--   x  `<size>:<stays>:<period>`: how many entries are read, how long they stay, and when the expiry of both keys was
--      last set
-- The metadata expires with the entries, unless readers keep it: names that clients choose leave nothing behind. A node
-- that is cut off, and is a reader, must notice that it missed an entry.
-- KEYS: epochs, then log, meta, counts of each, and the idempotency key's mark if there is one
-- ARGV: run, milliseconds of a period, milliseconds that a position is kept for readers, kind, body, size, milliseconds
--       the entries stay, 1 if a log that nobody awaits is not begun, version ('' if none), its life, seconds a mark
--       stays, keys of a log
-- Returns for each log `<offset> <epoch> <receivers>`, or `!` and the reason if it could not be written.
local call, format = redis.call, string.format
local run, kind, body, size, stays, skips = ARGV[1], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8] == '1'
local version, life, mark_stays, per_log = ARGV[9], ARGV[10], ARGV[11], tonumber(ARGV[12])
local payload = ' ' .. kind .. body

-- The expiry of the keys is set once in a sixteenth of the time that entries stay, because it takes two of an append's
-- six commands. The keys are kept for that much longer.
local slack, time = math.ceil(tonumber(stays) / 16), call('TIME')
local period = math.floor((time[1] * 1000 + math.floor(time[2] / 1000)) / slack)
local kept = size .. ':' .. stays .. ':' .. format('%.0f', period)

local function append(log, meta, counts, mark)
  if mark then
    local epoch, offset = unpack(call('HMGET', mark, 'e', 't'))
    if epoch then return offset .. ' ' .. epoch .. ' 0' end
  end
  local found = call('HMGET', meta, 'r', 'e', 't', 'x', 'v', 'l')
  local epoch, offset, set, last = found[2], found[3], found[4], found[5]
  local has_readers = false
  -- A log that another run of Redis wrote may lack its end, and offsets must not be reused.
  if found[1] ~= run then
    call('DEL', log, meta)
    -- Clients that joined before the first entry have this epoch. Those that come back after the log has expired, or
    -- was not begun, get another one.
    epoch, has_readers = end_derived_epoch(log, counts, KEYS[1])
    offset, set, last = '0', nil, nil
    if skips and not has_readers then return '0 ' .. epoch .. ' 0' end
    -- If the next command is refused, the log has no entries yet.
    call('HSET', meta, 'r', run, 'e', epoch, 't', offset)
  end
  if version ~= '' and last and found[6] == life and version <= last then return offset .. ' ' .. epoch .. ' 0' end

  offset = format('%.0f', tonumber(offset) + 1)
  local id = '0-' .. offset
  -- Whole nodes of the Stream are trimmed, and `read.lua` reads no more than `size`: exact trimming skips the removed
  -- entries of the first node each time. A log that was cleared or evicted meanwhile has no expiry.
  local sets_expiry = not (set == kept and call('XADD', log, 'NOMKSTREAM', 'MAXLEN', '~', size, id, kind, body))
  if sets_expiry then
    call('XADD', log, 'MAXLEN', '~', size, id, kind, body)
    -- First of all: an offset that is in the log is not used again, whatever is refused now.
    call('HSET', meta, 't', offset)
    call('PEXPIRE', log, stays + slack)
    -- No expiry, as that of a new key, counts as the greatest one.
    if call('PTTL', meta) < 0 then
      call('PEXPIRE', meta, stays + slack)
    else
      call('PEXPIRE', meta, stays + slack, 'GT')
    end
    call('HSET', meta, 'x', kept)
  else
    call('HSET', meta, 't', offset)
  end
  if version ~= '' then call('HSET', meta, 'v', version, 'l', life) end
  if mark then
    call('HSET', mark, 'e', epoch, 't', offset)
    call('EXPIRE', mark, mark_stays)
  end
  local receivers = call('PUBLISH', log, id .. ' ' .. epoch .. payload)
  if has_readers or sets_expiry and receivers > 0 then keep_position(meta, kept) end
  return offset .. ' ' .. epoch .. ' ' .. receivers
end

local written, n = {}, 0
for i = 2, #KEYS, per_log do
  n = n + 1
  -- The failure of one log must not keep the others from being written.
  local done, outcome = pcall(append, KEYS[i], KEYS[i + 1], KEYS[i + 2], per_log > 3 and KEYS[i + 3])
  written[n] = done and outcome or '!' .. (outcome.err or outcome)
end
return written
