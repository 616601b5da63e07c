-- Catches a filled inbox up to a mark of the pull log, unless it has already caught up.
-- KEYS: log, meta
-- ARGV: run, epoch, mark, length, length with slack, then kind and post of each entry
-- Returns {entries written, last offset}, nil if this is not the inbox meant.
local log, meta = KEYS[1], KEYS[2]
local found = call('HMGET', meta, 'h', 'r', 'f', 'w')
local head = found[1]
if not head or found[2] ~= ARGV[1] or sub(head, 17) ~= ARGV[2] or call('EXISTS', log) == 0 then return false end
if sub(head, 1, 16) == UNFILLED then return false end

local written = 0
local news = tonumber(found[4] or '0') < tonumber(ARGV[3])
if news and #ARGV > 5 then
  local words = last_words(log)
  local floor, fence = pad(found[3]), ''
  for i = 6, #ARGV, 2 do
    local kind, post = ARGV[i], ARGV[i + 1]
    local padded = pad(post)
    if (kind == 'a' or padded > floor) and is_news(kind, words[post], head) then
      local id = call('XADD', log, '0-*', kind, post)
      call('PUBLISH', log, id .. ' ' .. sub(head, 17) .. ' ' .. kind .. post)
      if is_about_presence(kind) then words[post] = kind end
      written = written + 1
      if kind == 'p' and padded > fence then fence = padded end
    end
  end
  if fence ~= '' then
    raise_fence(meta, head, fence)
    note_arrival(meta)
  end
  if call('XLEN', log) >= tonumber(ARGV[5]) then trim(log, meta, tonumber(ARGV[4])) end
end
if news then call('HSET', meta, 'w', ARGV[3]) end
return {written, top(log)}
