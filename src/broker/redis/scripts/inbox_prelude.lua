-- Included before every script that writes to inboxes.
--
-- An inbox is a Stream (ids 0-<offset>, one field an entry: kind letter = post id) and a HASH beside it:
--   h  head: the fence as 16 digits, then the epoch. Posts above the fence were added by fan-out only, except the
--      owner's own, see `o`. A fence of UNFILLED means that the past posts are missing. Numbers of 16 digits sort as
--      text in numeric order.
--   o  the greatest id of the owner's own posts above the fence, as 16 digits; absent if there are none. Own posts have
--      a field of their own because they are added while older posts of others are still being fanned out: these would
--      all be searched for if they raised the fence.
--   f  floor: the Stream has an entry for every post above it that was ever added
--   r  the run of Redis that wrote it
--   n  the last time that an operation other than a fan-out added posts, in Unix milliseconds
--   w  the mark of the pull log up to which it has caught up; absent is 0
--   c  the only connection that receives the hints of the inbox: see node_hints.lua
-- Post ids stay text: Lua would print a large number with 14 digits.
local call, sub = redis.call, string.sub
local UNFILLED = '9007199254740991'

local function pad(id)
  return string.rep('0', 16 - #id) .. id
end

-- Reading a whole inbox is bounded: it is trimmed to its length, with some slack, whenever it has grown by 100 entries.

-- Whether an entry of this kind may add or remove its post. Edits do not: they are written without a search. Nor does
-- an entry that hides an author (kind a): its post only names the author.
local function is_about_presence(kind)
  return kind ~= 'e' and kind ~= 'a'
end

-- The kind letter of the newest entry on a post, nil if there is none. Edits do not count: they are written without a
-- search, so they do not show that the inbox contains the post.
local function last_word(log, post)
  local to, count = '+', 20
  while true do
    local chunk = call('XREVRANGE', log, to, '-', 'COUNT', count)
    for i = 1, #chunk do
      local field = chunk[i][2]
      if field[2] == post and is_about_presence(field[1]) then return field[1] end
    end
    if #chunk < count then return nil end
    to, count = '(' .. chunk[#chunk][1], 500
  end
end

-- The last entry on each post of an inbox.
local function last_words(log)
  local words, all = {}, call('XRANGE', log, '-', '+')
  for i = 1, #all do
    local field = all[i][2]
    if is_about_presence(field[1]) then words[field[2]] = field[1] end
  end
  return words
end

-- Whether an entry changes the state of an inbox. `word` is the last entry on the post.
local function is_news(kind, word, head)
  if kind == 'a' then return sub(head, 1, 16) ~= UNFILLED end
  if word == 'p' then return kind ~= 'p' end
  if word == 'x' then return false end
  if word then return kind == 'p' end
  return kind == 'p' or (kind ~= 'e' and sub(head, 1, 16) == UNFILLED)
end

-- Whether an edit or a removal is written without a search. The past posts of an unfilled inbox are read later than the
-- edit, so it does not need the edit; but they could add a removed post again.
local function applies(kind, head)
  return is_about_presence(kind) or sub(head, 1, 16) ~= UNFILLED
end

-- Records that an operation other than a fan-out adds posts.
local function note_arrival(meta)
  local time = call('TIME')
  call('HSET', meta, 'n', time[1] .. string.format('%03d', math.floor(time[2] / 1000)))
end

-- Whether an operation other than the post's fan-out may have added a post that was created later than `since`. `last`
-- is the time that note_arrival recorded.
local function may_hold(head, last, since)
  return sub(head, 1, 16) == UNFILLED or tonumber(last) >= since
end

-- Raises the fence to a padded id.
local function raise_fence(meta, head, padded)
  if sub(head, 1, 16) >= padded then return head end
  head = padded .. sub(head, 17)
  call('HSET', meta, 'h', head)
  return head
end

-- Trims an inbox to its length, and raises the floor to the last removed post.
local function trim(log, meta, length)
  local excess = call('XLEN', log) - length
  if excess <= 0 then return end
  local floor = pad(call('HGET', meta, 'f'))
  local before = floor
  local going = call('XRANGE', log, '-', '+', 'COUNT', excess)
  for i = 1, #going do
    local field = going[i][2]
    if field[1] == 'p' then
      local id = pad(field[2])
      if id > floor then floor = id end
    end
  end
  call('XTRIM', log, 'MAXLEN', '=', length)
  if floor > before then
    call('HSET', meta, 'f', floor)
    raise_fence(meta, call('HGET', meta, 'h'), floor)
  end
end

-- Records the connection that receives the hints of an inbox, if it is the only one. `known` is the recorded one,
-- `connection` the caller's; '' if the caller does not receive them.
local function note_listener(log, meta, connection, known)
  if connection == '' then return end
  if call('PUBSUB', 'NUMSUB', log)[2] ~= 1 then
    if known then call('HDEL', meta, 'c') end
  elseif known ~= connection then
    call('HSET', meta, 'c', connection)
  end
end

-- The last offset of a Stream that exists, as text.
local function top(log)
  local last = call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
  if last then return sub(last[1], 3) end
  local info = call('XINFO', 'STREAM', log)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then return sub(info[i + 1], 3) end
  end
end
