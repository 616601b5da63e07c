-- Who is in a channel.
-- KEYS: HASH client -> info, ZSET client -> until when, in milliseconds
-- Returns clients and infos in turn.
local call = redis.call
local now = call('TIME')
local till = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))
local late = call('ZRANGE', KEYS[2], '-inf', till, 'BYSCORE')
for i = 1, #late do
  call('HDEL', KEYS[1], late[i])
  call('ZREM', KEYS[2], late[i])
end
return call('HGETALL', KEYS[1])
