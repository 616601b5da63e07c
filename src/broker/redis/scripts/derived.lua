-- Put before every script that may meet a log that nothing was written to. Such a log has no keys: its epoch is
-- derived, see broker/epoch.rs.
-- ARGV[1] to ARGV[3] of these scripts: run, milliseconds of a period, milliseconds that a position is kept for readers
--
-- The HASH `epochs` has the seed (field `s`), and a field for each group of channels, by a hash of their names:
-- `<lives> <minute>`, how many logs of the group were begun, and when a position of one that was not was last read.

-- A log is begun although nobody listens if the position of a channel of its group was read within these minutes: its
-- readers may come back.
local AWAITED_MINUTES = 60

local function group_of(log, epochs)
  local group = string.sub(redis.sha1hex(log), 1, 4)
  local lives, minute = string.match(redis.call('HGET', epochs, group) or '0 0', '^(%d+) (%d+)$')
  return group, lives, tonumber(minute)
end

local function minute_of(now)
  return math.floor(now[1] / 60)
end

-- `counts` is the HASH with the counts of the channel's object, if it has one. Its field `u` is the version of counts
-- that were not appended because no node received them: it changes the epoch, so that returning clients reload the
-- counts.
local function derived_epoch(log, counts, epochs, is_read)
  local run, period = ARGV[1], ARGV[2]
  local now = redis.call('TIME')
  local seed = redis.call('HGET', epochs, 's')
  if not seed then
    -- The seed is lost together with all logs, whose epochs must not be derived again.
    seed = redis.sha1hex(run .. ' ' .. now[1] .. ' ' .. now[2])
    redis.call('HSET', epochs, 's', seed)
  end
  local unseen = redis.call('HGET', counts, 'u') or ''
  local digest = redis.sha1hex(run .. ' ' .. seed .. ' ' .. unseen .. ' ' .. log)
  local number = math.floor((now[1] * 1000 + math.floor(now[2] / 1000)) / period)
  local group, lives, minute = group_of(log, epochs)
  if is_read and minute ~= minute_of(now) then
    redis.call('HSET', epochs, group, lives .. ' ' .. string.format('%.0f', minute_of(now)))
  end
  return string.sub(digest, 1, 10) .. '.' .. string.format('%.0f', number) .. '.' .. lives
end

-- Whether somebody reads a log without keys, or did a while ago.
local function is_awaited(log, epochs)
  local _, _, minute = group_of(log, epochs)
  return redis.call('PUBSUB', 'NUMSUB', log)[2] > 0 or minute_of(redis.call('TIME')) - minute <= AWAITED_MINUTES
end

-- The epoch that was derived for the log until now is not derived again.
local function end_derived_epoch(log, epochs)
  local group, lives, minute = group_of(log, epochs)
  redis.call('HSET', epochs, group, string.format('%.0f %.0f', lives + 1, minute))
end

-- Keeps a position that a reader has: for as long as entries stay (`set` is the field `x`, see append.lua).
local function keep_position(meta, set)
  local stays = set and tonumber(string.match(set, '^%d+:(%d+)')) or 0
  redis.call('PEXPIRE', meta, string.format('%.0f', math.max(stays, tonumber(ARGV[3]))), 'GT')
end
