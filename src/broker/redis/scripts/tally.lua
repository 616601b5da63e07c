-- Writes tallies that are newer than the stored ones. A tally is a HASH: l likes, c comments, v version, and u, the
-- last version that was not appended to the channel of the object, see derived.lua.
-- KEYS: for each object the log of its channel, the metadata of that log, and the tally
-- ARGV: milliseconds a tally stays, then for each object likes, comments, version
-- Returns for each object whether its counts are to be appended: its channel has a log or a listener.
local call = redis.call
local logs = {}
for i = 1, #KEYS, 3 do logs[#logs + 1] = KEYS[i] end
-- The name of each channel, followed by its listeners.
local listeners = call('PUBSUB', 'NUMSUB', unpack(logs))
local wanted = {}
for n = 1, #logs do
  local at = 3 * n
  local log, tally, version = logs[n], KEYS[at], ARGV[at + 1]
  local known, unseen = unpack(call('HMGET', tally, 'v', 'u'))
  local is_wanted = listeners[2 * n] > 0 or call('EXISTS', KEYS[at - 1]) == 1
  local is_newer = tonumber(version) > tonumber(known or '-1')
  -- A late, older version must not restore an earlier epoch.
  local is_unseen = not is_wanted and log ~= tally and tonumber(unseen or '-1') < tonumber(version)
  if is_newer and is_unseen then
    call('HSET', tally, 'l', ARGV[at - 1], 'c', ARGV[at], 'v', version, 'u', version)
  elseif is_newer then
    call('HSET', tally, 'l', ARGV[at - 1], 'c', ARGV[at], 'v', version)
  elseif is_unseen then
    call('HSET', tally, 'u', version)
  end
  if is_newer or is_unseen then call('PEXPIRE', tally, ARGV[1]) end
  wanted[n] = is_wanted and 1 or 0
end
return wanted
