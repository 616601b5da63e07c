-- Drops what has been read from a partition of the queue.
-- KEYS: Stream, life
-- ARGV: life, the first place to keep
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
return redis.call('XTRIM', KEYS[1], 'MINID', '=', ARGV[2])
