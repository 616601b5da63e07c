-- One entry to many inboxes, once for each page.
-- KEYS: page mark; then log, meta of each inbox
-- ARGV: next page, seconds the mark stays, kind, post, post padded, length, 1 if it is a repeated attempt
-- Returns the next page as text if the page was written before; else for each inbox the number of receivers,
-- -1 if nothing was written, -2 if there is no inbox.
local kind, post, padded, length, repeated = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), ARGV[7] == '1'
if not call('SET', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then return call('GET', KEYS[1]) end

local above_fence = kind == 'p' and padded or ''
local said = ' ' .. kind .. post
local receipts, n = {}, 0
for i = 2, #KEYS, 2 do
  local log, receipt = KEYS[i], -2
  local head = call('HGET', KEYS[i + 1], 'h')
  if head then
    -- Below the fence inboxes are looked into, here and by a page of another attempt that comes after.
    if repeated and kind == 'p' then head = raise_fence(KEYS[i + 1], head, padded) end
    local news = head < above_fence
    if kind ~= 'p' then
      news = applies(kind, head)
    elseif not news then
      news = pad(call('HGET', KEYS[i + 1], 'f')) < padded and is_news(kind, last_word(log, post), head)
    end
    if news then
      local id = call('XADD', log, 'NOMKSTREAM', '0-*', kind, post)
      if id then
        receipt = call('PUBLISH', log, id .. ' ' .. sub(head, 17) .. said)
        if sub(id, -2) == '00' then trim(log, KEYS[i + 1], length) end
      end
    elseif call('EXISTS', log) == 1 then
      receipt = -1
    end
  end
  n = n + 1
  receipts[n] = receipt
end
return receipts
