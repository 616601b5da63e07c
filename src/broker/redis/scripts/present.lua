-- Adds a client to a channel, or renews its entry.
-- ARGV: (see the prelude), client, user, info, milliseconds to stay
local client, user, value = ARGV[2], ARGV[3], ARGV[3] .. ' ' .. ARGV[4]
local ttl = tonumber(ARGV[5])
local known = call('HGET', entries, 'c' .. client)
if known and user_of(known) ~= user then
  remove(client)
  known = false
end
if not known then call('HINCRBY', entries, 'u' .. user, 1) end
if known ~= value then call('HSET', entries, 'c' .. client, value) end
call('ZADD', clients, text(now + ttl), client)
call('ZADD', users, 'GT', text(now + ttl), user)
for i = 1, 3 do
  -- The keys stay as long as the entry that stays longest.
  if call('PTTL', KEYS[i]) < ttl then call('PEXPIRE', KEYS[i], ARGV[5]) end
end
