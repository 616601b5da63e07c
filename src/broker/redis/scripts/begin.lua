-- Begins an attempt at a job of fan-out: pages of earlier attempts are refused from now on.
-- KEYS: job
-- ARGV: token of the attempt, seconds that the job is kept
-- Returns all fields of the job with their values, nil if a later attempt has begun.
local call = redis.call
local last = call('HGET', KEYS[1], 't')
if last and tonumber(last) > tonumber(ARGV[1]) then return false end
call('HSET', KEYS[1], 't', ARGV[1])
call('EXPIRE', KEYS[1], ARGV[2])
-- Bounded: a job has at most fanout.push_limit followers, and one field for each page of them.
return call('HGETALL', KEYS[1])
