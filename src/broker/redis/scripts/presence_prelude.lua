-- Included before every script on presence.
-- KEYS: entries, clients, users
--   entries  HASH: c<client> -> user, a space, info; u<user> -> number of the user's clients
--   clients  ZSET: client -> when its entry expires, in milliseconds of this server's clock
--   users    ZSET: user -> when the last entry of the user expires
-- ARGV: how many expired entries to remove at most, then the script's own
-- Both sorted sets are counted by score, so the counts leave out expired entries that have not been removed yet.
local call = redis.call
local entries, clients, users = KEYS[1], KEYS[2], KEYS[3]
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function text(number)
  return string.format('%.0f', number)
end

local function user_of(entry)
  return string.match(entry, '^[^ ]*')
end

local function remove(client)
  call('ZREM', clients, client)
  local entry = call('HGET', entries, 'c' .. client)
  if not entry then return end
  call('HDEL', entries, 'c' .. client)
  local user = user_of(entry)
  if call('HINCRBY', entries, 'u' .. user, -1) <= 0 then
    call('HDEL', entries, 'u' .. user)
    call('ZREM', users, user)
  end
end

local expired = call('ZRANGE', clients, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, ARGV[1])
for i = 1, #expired do remove(expired[i]) end
