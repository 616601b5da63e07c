-- Writes tallies that are newer than the stored ones. A tally is a HASH: l likes, c comments, v version, and u, the
-- last version that was not appended to the channel of the object, see derived.lua.
-- KEYS: for each object the log of its channel, the metadata of that log, and the tally
-- ARGV: milliseconds a tally stays, then for each object likes, comments, version
-- Returns for each object whether its counts are to be appended: its channel has a log or a listener.
local call = redis.call
local wanted = {}
for i = 1, #KEYS, 3 do
  local log, tally, at = KEYS[i], KEYS[i + 2], i + 1
  local known, unseen = unpack(call('HMGET', tally, 'v', 'u'))
  if tonumber(ARGV[at + 2]) > tonumber(known or '-1') then
    call('HSET', tally, 'l', ARGV[at], 'c', ARGV[at + 1], 'v', ARGV[at + 2])
    call('PEXPIRE', tally, ARGV[1])
  end
  local is_wanted = call('EXISTS', KEYS[i + 1]) == 1 or call('PUBSUB', 'NUMSUB', log)[2] > 0
  -- A late, older version must not restore an earlier epoch.
  if not is_wanted and log ~= tally and tonumber(unseen or '-1') < tonumber(ARGV[at + 2]) then
    call('HSET', tally, 'u', ARGV[at + 2])
    call('PEXPIRE', tally, ARGV[1])
  end
  wanted[#wanted + 1] = is_wanted and 1 or 0
end
return wanted
