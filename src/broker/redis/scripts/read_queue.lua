-- Reads from a partition of the queue.
-- KEYS: Stream, epoch
-- ARGV: offset, maximum number of entries, new epoch
-- Returns {epoch, entries}.
local call = redis.call
local stream, after = KEYS[1], ARGV[1]
local life = call('GET', KEYS[2])
if not life then
  life = ARGV[3]
  call('SET', KEYS[2], life)
end

-- A text in the order of ids, in every locale.
local function order(id)
  local time, number = string.match(id, '^(%d+)-(%d+)$')
  return string.rep('0', 20 - #time) .. time .. string.rep('0', 20 - #number) .. number
end

local entries = call('XRANGE', stream, '(' .. after, '+', 'COUNT', ARGV[2])
if #entries == 0 and call('EXISTS', stream) == 1 then
  -- A Stream that lost its end in a crash must not reuse ids that have been read if the clock is behind.
  local info = call('XINFO', 'STREAM', stream)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' and order(info[i + 1]) < order(after) then call('XSETID', stream, after) end
  end
end
return {life, entries}
