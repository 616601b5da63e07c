-- Writes one entry of the pull log to many inboxes, to each of them once.
-- KEYS: log, meta of each inbox
-- ARGV: kind, post, post padded, length, 1 to look into each inbox, mark, prefix of the names of
-- connections, where the name of a log has its user
-- Returns for each inbox the number of receivers, -1 if nothing was written, -2 if there is no inbox.
local kind, post, padded, length, look = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5] == '1'
local mark = tonumber(ARGV[6])
local above_fence = kind == 'p' and padded or ''
local receipts, n = {}, 0
begin_hints(kind, post, 7)

local function write(log, meta)
  local found = call('HMGET', meta, 'h', 'f', 'w', 'c')
  local head, connection = found[1], found[4]
  if not head or call('EXISTS', log) == 0 then return -2 end
  if tonumber(found[3] or '0') >= mark then return -1 end
  call('HSET', meta, 'w', ARGV[6])
  if look and kind == 'p' then
    head = raise_fence(meta, head, padded)
    note_arrival(meta)
  end
  local news = head < above_fence
  if not news and (look or kind == 'p') then
    news = pad(found[2]) < padded and is_news(kind, last_word(log, post), head)
  elseif not news then
    news = applies(kind, head)
  end
  if not news then return -1 end
  local id = redis.pcall('XADD', log, '0-*', kind, post)
  if id.err then
    -- Nothing is rolled back: without this, a repeat would take the entry for written.
    call('HSET', meta, 'w', found[3] or '0')
    error(id)
  end
  local receipt = hint(n, log, connection, id, head)
  if sub(id, -2) == '00' then trim(log, meta, length) end
  return receipt
end

return write_and_hint(function()
  for i = 1, #KEYS, 2 do
    n = n + 1
    receipts[n] = write(KEYS[i], KEYS[i + 1])
  end
end, 1, receipts)
