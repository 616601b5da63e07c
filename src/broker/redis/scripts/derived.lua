-- Put before every script that may meet a log that nothing was written to. Such a log has no keys: its epoch is derived,
-- see broker/epoch.rs. `counts` is the HASH with the counts of the channel's object, if it has one: its field `u` is
-- the version of counts that were not appended because nobody listened, so that clients that come back load them.
local function derived_epoch(run, log, counts, seed_key, period)
  local now = redis.call('TIME')
  local seed = redis.call('GET', seed_key)
  if not seed then
    -- Lost together with all logs, whose epochs must not be derived again.
    seed = redis.sha1hex(run .. ' ' .. now[1] .. ' ' .. now[2])
    redis.call('SET', seed_key, seed)
  end
  local unseen = redis.call('HGET', counts, 'u') or ''
  local digest = redis.sha1hex(run .. ' ' .. seed .. ' ' .. unseen .. ' ' .. log)
  local number = math.floor((now[1] * 1000 + math.floor(now[2] / 1000)) / period)
  return string.sub(digest, 1, 10) .. '.' .. string.format('%.0f', number)
end
