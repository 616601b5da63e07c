-- Writes one entry to many inboxes: a page of one attempt at a job.
-- KEYS: job; then log, meta of each inbox
-- ARGV: token of the attempt, field and value of the page in the job, seconds that the job is kept, kind, post, post
-- padded, length, time in milliseconds since when a fill or merge may have added the post, log of the author's inbox,
-- prefix of the names of connections, where the name of a log has its user
-- Returns nil if a later attempt has begun; else for each inbox the number of receivers, -1 if nothing was written, -2
-- if there is no inbox.
-- The job is a HASH: t is the token of the last attempt, all other fields are pages that were written.
local job, last = KEYS[1], call('HGET', KEYS[1], 't')
if last and tonumber(last) > tonumber(ARGV[1]) then return false end
call('HSET', job, 't', ARGV[1])
if not last then call('EXPIRE', job, ARGV[4]) end

local kind, post, padded, length, since = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
local above_fence = kind == 'p' and padded or ''
local own, receipts, n = ARGV[10], {}, 0
begin_hints(kind, post, 11)

local function write(log, meta)
  local found = call('HMGET', meta, 'h', 'c')
  local head, connection = found[1], found[2]
  if not head then return -2 end
  local news = head < above_fence
  if kind ~= 'p' then
    news = applies(kind, head)
  elseif log == own then
    -- `add_own.lua` may have added it.
    found = call('HMGET', meta, 'f', 'n', 'o')
    local is_newest = not found[3] or found[3] < padded
    news = pad(found[1]) < padded
      and (is_newest and (news or not may_hold(head, found[2], since)) or is_news(kind, last_word(log, post), head))
    if news and is_newest then call('HSET', meta, 'o', padded) end
  elseif not news then
    found = call('HMGET', meta, 'f', 'n')
    news = pad(found[1]) < padded
      and (not may_hold(head, found[2], since) or is_news(kind, last_word(log, post), head))
  end
  if not news then return call('EXISTS', log) - 2 end
  local id = call('XADD', log, 'NOMKSTREAM', '0-*', kind, post)
  if not id then return -2 end
  local receipt = hint(n, log, connection, id, head)
  if sub(id, -2) == '00' then trim(log, meta, length) end
  return receipt
end

-- A page that failed half way is written again. The inboxes that have the entry are to be searched for it then: below a
-- fence, and after an arrival.
local function prepare_repeat()
  for i = 1, n do
    local meta = KEYS[2 * i + 1]
    if (receipts[i] or 0) >= 0 then
      pcall(function()
        if kind == 'p' then raise_fence(meta, call('HGET', meta, 'h'), padded) end
        note_arrival(meta)
      end)
    end
  end
end

local outcome = write_and_hint(function()
  for i = 2, #KEYS, 2 do
    n = n + 1
    receipts[n] = write(KEYS[i], KEYS[i + 1])
  end
end, 2, receipts, prepare_repeat)
if outcome.err then return outcome end
local noted = redis.pcall('HSET', job, ARGV[2], ARGV[3])
if type(noted) == 'table' and noted.err then
  prepare_repeat()
  return noted
end
return outcome
