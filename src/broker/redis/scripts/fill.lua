-- Adds the past posts to an unfilled inbox.
-- KEYS: log, meta
-- ARGV: run, epoch, floor, length, length with slack, mark, posts (oldest first)
-- Returns the last offset, nil if this is not the inbox meant.
local log, meta = KEYS[1], KEYS[2]
local found = call('HMGET', meta, 'h', 'r', 'f', 'w')
local head = found[1]
if not head or found[2] ~= ARGV[1] or sub(head, 17) ~= ARGV[2] or call('EXISTS', log) == 0 then return false end
if sub(head, 1, 16) ~= UNFILLED then return top(log) end

-- Entries that have arrived since the inbox was opened (bounded, see the prelude) go above the past posts. Their old
-- offsets are not reused: a client may have received them.
local present, listed = call('XRANGE', log, '-', '+'), {}
local floor = pad(ARGV[3])
if pad(found[3]) > floor then floor = pad(found[3]) end
local fence = floor
for i = 1, #present do
  local post = present[i][2][2]
  listed[post] = true
  if pad(post) > fence then fence = pad(post) end
end
call('XTRIM', log, 'MAXLEN', '=', 0)
for i = 7, #ARGV do
  local post = ARGV[i]
  if not listed[post] then
    call('XADD', log, '0-*', 'p', post)
    if pad(post) > fence then fence = pad(post) end
  end
end
for i = 1, #present do
  local field = present[i][2]
  call('XADD', log, '0-*', field[1], field[2])
end
call('HSET', meta, 'h', fence .. ARGV[2], 'f', floor)
note_arrival(meta)
if tonumber(found[4] or '0') < tonumber(ARGV[6]) then call('HSET', meta, 'w', ARGV[6]) end
if call('XLEN', log) >= tonumber(ARGV[5]) then trim(log, meta, tonumber(ARGV[4])) end
return top(log)
