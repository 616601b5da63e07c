-- Leases a number, or renews the lease.
-- KEYS: HASH number -> up to when its holders may have made ids, in Unix milliseconds, and `all` -> up to when any node
--       has made them; then a key for each number, in the order in which to try
-- ARGV: holder, milliseconds, until when this holder may make ids, 1 if the first number was the holder's, until when
--       it has made ids, then the numbers
-- Returns {index among the numbers, until when a former holder may have made ids or others have, the time}, {0, 0, 0}
-- if all are taken.
local call = redis.call
local ceilings, numbers = KEYS[1], #KEYS - 1

local function note(field, value)
  local used = tonumber(call('HGET', ceilings, field) or '0')
  if tonumber(value) > used then call('HSET', ceilings, field, value) end
  return math.max(tonumber(value), used)
end

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local greatest = note('all', ARGV[5])

local free = {}
for at = 1, numbers do
  local holder = call('GET', KEYS[1 + at])
  if holder == ARGV[1] then
    call('PEXPIRE', KEYS[1 + at], ARGV[2])
    note(ARGV[5 + at], ARGV[3])
    return {at, greatest, now}
  end
  if not holder then free[#free + 1] = at end
end
if #free == 0 then return {0, 0, 0} end

-- The holder's own; else one whose former holder's ids all lie in the past; else the one that is the least ahead.
local best, best_until
for i = 1, #free do
  local used = tonumber(call('HGET', ceilings, ARGV[5 + free[i]]) or '0')
  if not best or used < best_until then best, best_until = free[i], used end
  if used <= now or (ARGV[4] == '1' and free[i] == 1) then
    best, best_until = free[i], used
    break
  end
end
call('SET', KEYS[1 + best], ARGV[1], 'PX', ARGV[2])
note(ARGV[5 + best], ARGV[3])
return {best, math.max(best_until, greatest), now}
