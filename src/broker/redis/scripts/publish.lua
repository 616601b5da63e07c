-- Sends a message to many pub/sub channels.
-- ARGV: message, channels
-- Returns for each channel the number of receivers, or `!` and the reason if it could not be sent.
local outcomes = {}
for i = 2, #ARGV do
  -- The failure of one channel must not keep the others from being reached.
  local receivers = redis.pcall('PUBLISH', ARGV[i], ARGV[1])
  outcomes[i - 1] = type(receivers) == 'number' and receivers or '!' .. receivers.err
end
return outcomes
