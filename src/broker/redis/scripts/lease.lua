-- Leases a number, or renews the lease.
-- KEYS: HASH number -> up to when its holders may have made ids, in Unix milliseconds; then a key for each number, in
--       the order in which to try
-- ARGV: holder, milliseconds, until when this holder may make ids, 1 if the first number was the holder's, then the
-- numbers
-- Returns {index among the numbers, until when a former holder may have made ids}, {0, 0} if all are taken.
local call = redis.call
local ceilings, numbers = KEYS[1], #KEYS - 1

local function note(at)
  local used = tonumber(call('HGET', ceilings, ARGV[4 + at]) or '0')
  if tonumber(ARGV[3]) > used then call('HSET', ceilings, ARGV[4 + at], ARGV[3]) end
end

local free = {}
for at = 1, numbers do
  local holder = call('GET', KEYS[1 + at])
  if holder == ARGV[1] then
    call('PEXPIRE', KEYS[1 + at], ARGV[2])
    note(at)
    return {at, 0}
  end
  if not holder then free[#free + 1] = at end
end
if #free == 0 then return {0, 0} end

-- The holder's own; else one whose former holder's ids all lie in the past; else the one that is the least ahead.
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local best, best_until
for i = 1, #free do
  local used = tonumber(call('HGET', ceilings, ARGV[4 + free[i]]) or '0')
  if not best or used < best_until then best, best_until = free[i], used end
  if used <= now or (ARGV[4] == '1' and free[i] == 1) then
    best, best_until = free[i], used
    break
  end
end
call('SET', KEYS[1 + best], ARGV[1], 'PX', ARGV[2])
note(best)
return {best, best_until}
