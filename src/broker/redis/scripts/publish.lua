-- Sends a message to many pub/sub channels.
-- KEYS: the mark of the idempotency key of each channel, if there is one
-- ARGV: seconds a mark stays, message, channels
-- Returns for each channel the number of receivers, 0 if its mark exists, or `!` and the reason if it could not be
-- sent.
local outcomes = {}
for i = 3, #ARGV do
  local mark = KEYS[i - 2]
  -- The failure of one channel must not keep the others from being reached.
  local receivers
  if mark and redis.call('EXISTS', mark) == 1 then
    receivers = 0
  else
    receivers = redis.pcall('PUBLISH', ARGV[i], ARGV[2])
    if mark and type(receivers) == 'number' then
      redis.pcall('HSET', mark, 'e', '', 't', '0')
      redis.pcall('EXPIRE', mark, ARGV[1])
    end
  end
  outcomes[i - 2] = type(receivers) == 'number' and receivers or '!' .. receivers.err
end
return outcomes
