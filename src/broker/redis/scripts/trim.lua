-- Removes processed entries from a partition of the queue.
-- KEYS: lease, Stream, life
-- ARGV: holder, life, the first place to keep
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[3]) ~= ARGV[2] then return 0 end
return redis.call('XTRIM', KEYS[2], 'MINID', '=', ARGV[3])
