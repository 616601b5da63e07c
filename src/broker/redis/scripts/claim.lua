-- Leases a partition of the queue and reads from it.
-- KEYS: lease, Stream, epoch
-- ARGV: holder, milliseconds of the lease, offset, maximum number of entries, new epoch
-- Returns {epoch, entries}, nothing if another holder has the lease.
local call = redis.call
local lease, stream = KEYS[1], KEYS[2]
local holder = call('GET', lease)
if holder and holder ~= ARGV[1] then return false end
call('SET', lease, ARGV[1], 'PX', ARGV[2])
local life = call('GET', KEYS[3])
if not life then
  life = ARGV[5]
  call('SET', KEYS[3], life)
end

-- Whether an id is less than another.
local function below(one, other)
  local major, minor = string.match(one, '^(%d+)-(%d+)$')
  local than_major, than_minor = string.match(other, '^(%d+)-(%d+)$')
  major, than_major = tonumber(major), tonumber(than_major)
  return major < than_major or (major == than_major and tonumber(minor) < tonumber(than_minor))
end

local entries = call('XRANGE', stream, '(' .. ARGV[3], '+', 'COUNT', ARGV[4])
if #entries == 0 and call('EXISTS', stream) == 1 then
  -- A Stream that lost its end in a crash must not reuse ids that have been read if the clock is behind.
  local info = call('XINFO', 'STREAM', stream)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' and below(info[i + 1], ARGV[3]) then call('XSETID', stream, ARGV[3]) end
  end
end
return {life, entries}
