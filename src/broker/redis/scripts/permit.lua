-- Takes units out of a bucket (GCRA). The key holds the time at which the bucket is full again, in microseconds of this
-- server's clock, and expires then.
-- KEYS: the bucket
-- ARGV: microseconds for one unit, for a full bucket, and for the units to be taken (0: only look)
-- Returns 0 if granted, else the microseconds until it would be.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, full, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full_at = tonumber(redis.call('GET', KEYS[1]) or '0')
if full_at < now then full_at = now end
-- If the clock went back, the wait is at most the time in which a bucket fills.
if full_at > now + full then full_at = now + full end
local wait = full_at + math.max(cost, interval) - full - now
if wait > 0 then return wait end
if cost > 0 then
  full_at = full_at + cost
  redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', math.ceil((full_at - now) / 1000))
end
return 0
