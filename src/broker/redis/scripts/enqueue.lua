-- Appends entries to the partitions of the queue.
-- KEYS: the Stream of each partition
-- ARGV: how many may wait in all, then for each entry its partition (from 1) and what it says
-- Returns the id of each entry, '' for those that found no room.
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
