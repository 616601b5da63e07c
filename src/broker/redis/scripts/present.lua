-- Notes that a client is in a channel.
-- KEYS: HASH client -> info, ZSET client -> until when, in milliseconds
-- ARGV: client, info, milliseconds to stay
local call = redis.call
local now = call('TIME')
local till = now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[3]
call('HSET', KEYS[1], ARGV[1], ARGV[2])
call('ZADD', KEYS[2], string.format('%.0f', till), ARGV[1])
for i = 1, 2 do
  -- The longest of the clients' times counts.
  if call('PTTL', KEYS[i]) < tonumber(ARGV[3]) then call('PEXPIRE', KEYS[i], ARGV[3]) end
end
