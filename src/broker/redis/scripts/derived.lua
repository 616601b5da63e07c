-- Put before every script that may meet a log that nothing was written to. Such a log has no keys: its epoch is
-- derived, see broker/epoch.rs.
-- ARGV[1] to ARGV[3] of these scripts: run, milliseconds of a period, 1 if Redis may evict keys
local evicted

-- `counts` is the HASH with the counts of the channel's object, if it has one. Its field `u` is the version of counts
-- that were not appended because no node received them: it changes the epoch, so that returning clients reload the
-- counts.
local function derived_epoch(log, counts, seed_key)
  local run, period = ARGV[1], ARGV[2]
  local now = redis.call('TIME')
  local seed = redis.call('GET', seed_key)
  if not seed then
    -- The seed is lost together with all logs, whose epochs must not be derived again.
    seed = redis.sha1hex(run .. ' ' .. now[1] .. ' ' .. now[2])
    redis.call('SET', seed_key, seed)
  end
  local unseen = redis.call('HGET', counts, 'u') or ''
  local digest = redis.sha1hex(run .. ' ' .. seed .. ' ' .. unseen .. ' ' .. log)
  local number = math.floor((now[1] * 1000 + math.floor(now[2] / 1000)) / period)
  -- The missing key may have been evicted, and this epoch may be the one that its log had.
  if not evicted then
    evicted = ''
    if ARGV[3] == '1' then
      local count = string.match(redis.call('INFO', 'stats'), 'evicted_keys:(%d+)')
      if count and count ~= '0' then evicted = '.' .. count end
    end
  end
  return string.sub(digest, 1, 10) .. '.' .. string.format('%.0f', number) .. evicted
end
