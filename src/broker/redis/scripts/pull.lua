-- Writes one entry of the pull log to many inboxes, to each of them once.
-- KEYS: log, meta of each inbox
-- ARGV: kind, post, post padded, length, 1 to look into each inbox, mark
-- Returns for each inbox the number of receivers, -1 if nothing was written, -2 if there is no inbox.
local kind, post, padded, length, look = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5] == '1'
local mark = tonumber(ARGV[6])
local above_fence = kind == 'p' and padded or ''
local said = ' ' .. kind .. post
local receipts, n = {}, 0
for i = 1, #KEYS, 2 do
  local log, meta, receipt = KEYS[i], KEYS[i + 1], -2
  local found = call('HMGET', meta, 'h', 'f', 'w')
  local head = found[1]
  if head and call('EXISTS', log) == 1 then
    receipt = -1
    if tonumber(found[3] or '0') < mark then
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
      if news then
        local id = call('XADD', log, '0-*', kind, post)
        receipt = call('PUBLISH', log, id .. ' ' .. sub(head, 17) .. said)
        if sub(id, -2) == '00' then trim(log, meta, length) end
      end
    end
  end
  n = n + 1
  receipts[n] = receipt
end
return receipts
