-- Adds posts to an inbox, or records their removal.
-- KEYS: log, meta
-- ARGV: run, kind, length, length with slack, least floor, posts (oldest first)
-- Returns how many entries were written.
local log, meta, kind = KEYS[1], KEYS[2], ARGV[2]
local found = call('HMGET', meta, 'h', 'r', 'f')
local head, floor = found[1], found[3]
if not head or found[2] ~= ARGV[1] or call('EXISTS', log) == 0 then return 0 end

local words = last_words(log)
floor = pad(floor)
local least = pad(ARGV[5])
if least > floor then
  floor = least
  call('HSET', meta, 'f', floor)
  head = raise_fence(meta, head, floor)
end
local fence, written = '', 0
for i = 6, #ARGV do
  local post = ARGV[i]
  local padded = pad(post)
  if padded > floor and is_news(kind, words[post], head) then
    local id = call('XADD', log, '0-*', kind, post)
    call('PUBLISH', log, id .. ' ' .. sub(head, 17) .. ' ' .. kind .. post)
    words[post] = kind
    written = written + 1
    if padded > fence then fence = padded end
  end
end
if kind == 'p' and written > 0 then
  raise_fence(meta, head, fence)
  note_arrival(meta)
end
if call('XLEN', log) >= tonumber(ARGV[4]) then trim(log, meta, tonumber(ARGV[3])) end
return written
