-- Counts the clients and users of a channel.
-- Returns {clients, users}.
local after = '(' .. text(now)
return {call('ZCOUNT', clients, after, '+inf'), call('ZCOUNT', users, after, '+inf')}
