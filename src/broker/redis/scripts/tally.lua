-- Writes tallies that are newer than what is kept. A tally is a HASH: l likes, c comments, v version.
-- KEYS: for each object what is known of its channel's log, and its tally
-- ARGV: milliseconds a tally stays, then for each object likes, comments, version
-- Returns for each object whether its channel has a log.
local call = redis.call
local logs = {}
for i = 1, #KEYS, 2 do
  local at = (i - 1) / 2 * 3 + 2
  local version = tonumber(call('HGET', KEYS[i + 1], 'v') or '-1')
  if tonumber(ARGV[at + 2]) > version then
    call('HSET', KEYS[i + 1], 'l', ARGV[at], 'c', ARGV[at + 1], 'v', ARGV[at + 2])
    call('PEXPIRE', KEYS[i + 1], ARGV[1])
  end
  logs[#logs + 1] = call('EXISTS', KEYS[i])
end
return logs
