-- Put before every script that may meet a log that nothing was written to. Such a log has no keys: its epoch is
-- derived, see broker/epoch.rs.
-- ARGV[1] to ARGV[3] of these scripts: run, milliseconds of a period, milliseconds that a position is kept for readers
--
-- The HASH `epochs` has the seed (field `s`), and a field for each group of channels, by a hash of their names:
-- `<lives> <minute>`, how many logs of the group were begun, and when a position of one that was not was last read.

-- A log is begun although nobody listens if the position of a channel of its group was read within these minutes: its
-- readers may come back.
local AWAITED_MINUTES = 60

-- `counts` is the HASH with the counts of the channel's object, if it has one. Its field `u` is the version of counts
-- that were not appended because no node received them: it changes the epoch, so that returning clients reload the
-- counts.
-- Returns the epoch; the group, its lives and the minute of its last reader; and the present minute.
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
  local group = string.sub(redis.sha1hex(log), 1, 4)
  local lives, read_minute = string.match(redis.call('HGET', epochs, group) or '0 0', '^(%d+) (%d+)$')
  local minute = math.floor(now[1] / 60)
  if is_read and tonumber(read_minute) ~= minute then
    redis.call('HSET', epochs, group, lives .. ' ' .. string.format('%.0f', minute))
  end
  local epoch = string.sub(digest, 1, 10) .. '.' .. string.format('%.0f', number) .. '.' .. lives
  return epoch, group, lives, read_minute, minute
end

-- Derives the epoch of a log for the last time: the log is begun, or would have been. Returns the epoch, and whether
-- somebody reads the log, or did a while ago.
local function end_derived_epoch(log, counts, epochs)
  local epoch, group, lives, read_minute, minute = derived_epoch(log, counts, epochs)
  redis.call('HSET', epochs, group, string.format('%.0f', lives + 1) .. ' ' .. read_minute)
  return epoch, redis.call('PUBSUB', 'NUMSUB', log)[2] > 0 or minute - read_minute <= AWAITED_MINUTES
end

-- Keeps a position that a reader has: for as long as entries stay (`set` is the field `x`, see append.lua).
local function keep_position(meta, set)
  local stays = set and tonumber(string.match(set, '^%d+:(%d+)')) or 0
  redis.call('PEXPIRE', meta, string.format('%.0f', math.max(stays, tonumber(ARGV[3]))), 'GT')
end
