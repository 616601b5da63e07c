-- The positions of logs and inboxes, for readers. The position of a log is kept for its full time from now on.
-- KEYS: epochs, then log, meta, counts of each
-- ARGV: run, milliseconds of a period, milliseconds that a position is kept for readers, then for each: - if it is a
--       log; of an inbox, the caller's connection that receives its hints ('': none)
-- Returns for each its epoch and last offset, two empty texts for an inbox that is not there or not filled.
local out = {}
for i = 2, #KEYS, 3 do
  local log, n = KEYS[i], (i - 2) / 3
  local found = call('HMGET', KEYS[i + 1], 'r', 'h', 'e', 't', 'c', 'x')
  local head, epoch, last = found[2], '', ''
  local connection = ARGV[4 + n]
  if connection ~= '-' then
    if found[1] == ARGV[1] and head and sub(head, 1, 16) ~= UNFILLED and call('EXISTS', log) == 1 then
      epoch, last = sub(head, 17), top(log)
      note_listener(log, KEYS[i + 1], connection, found[5])
    end
  elseif found[1] == ARGV[1] then
    epoch, last = found[3], found[4]
    keep_position(KEYS[i + 1], found[6])
  else
    epoch, last = derived_epoch(log, KEYS[i + 2], KEYS[1], true), '0'
  end
  out[2 * n + 1], out[2 * n + 2] = epoch, last
end
return out
