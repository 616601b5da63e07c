-- Reads a part of a log or inbox atomically.
-- KEYS: log, meta, and of a log counts and epochs
-- ARGV: run, milliseconds of a period, milliseconds that a position is kept for readers, command (XRANGE or XREVRANGE),
--       from, to, count
-- The caller bounds the count; only inboxes, which are bounded, are read without a count.
-- A log may keep more entries than its size, which are not read; see `append.lua`.
-- Returns {epoch, top, floor, mark, entries}, nil for an inbox that does not exist or is not filled.
local log, meta = KEYS[1], KEYS[2]
local found = call('HMGET', meta, 'r', 'h', 'f', 'e', 't', 'w', 'x')
local head, epoch, last = found[2], found[4], found[5]
if found[1] ~= ARGV[1] then
  if not KEYS[3] then return false end
  return {derived_epoch(log, KEYS[3], KEYS[4]), '0', '0', '0', {}}
end
if head then
  if sub(head, 1, 16) == UNFILLED or call('EXISTS', log) == 0 then return false end
  epoch, last = sub(head, 17), top(log)
end
local from, to, size = ARGV[5], ARGV[6], found[7] and tonumber(string.match(found[7], '^%d+'))
local before = size and last - size or 0
if before > 0 then
  local bound = '(0-' .. string.format('%.0f', before)
  if ARGV[4] == 'XREVRANGE' then
    to = bound
  elseif tonumber(sub(from, 4)) < before then
    from = bound
  end
end
return {epoch, last, found[3] or '0', found[6] or '0', call(ARGV[4], log, from, to, 'COUNT', ARGV[7])}
