-- Appends entries to the partitions of the queue.
-- KEYS: the Stream of each partition
-- ARGV: the maximum number of entries in all partitions, then the partition (from 1) and the body of each entry
-- Returns the id of each entry, '' for refused ones: the queue is full.
local call = redis.call
local room = tonumber(ARGV[1])
for i = 1, #KEYS do room = room - call('XLEN', KEYS[i]) end
local places = {}
for i = 2, #ARGV, 2 do
  if room > 0 then
    places[#places + 1] = call('XADD', KEYS[tonumber(ARGV[i])], '*', 'b', ARGV[i + 1])
    room = room - 1
  else
    places[#places + 1] = ''
  end
end
return places
