-- Where logs and inboxes stand. Who asks builds on the position of a log: it stays known for its time from now on.
-- KEYS: log, meta of each
-- ARGV: run, milliseconds that a position stays known
-- Returns for each its epoch and last offset, two empty texts if there is none.
local out = {}
for i = 1, #KEYS, 2 do
  local log = KEYS[i]
  local found = call('HMGET', KEYS[i + 1], 'r', 'h', 'e', 't')
  local head, epoch, last = found[2], '', ''
  if found[1] == ARGV[1] then
    if not head then
      epoch, last = found[3], found[4]
      call('PEXPIRE', KEYS[i + 1], ARGV[2], 'GT')
    elseif sub(head, 1, 16) ~= UNFILLED and call('EXISTS', log) == 1 then
      epoch, last = sub(head, 17), top(log)
    end
  end
  out[i], out[i + 1] = epoch, last
end
return out
