-- Reads clients of a channel, those whose entries expire last.
-- ARGV: (see the prelude), how many at most
-- Returns clients and entries in turn.
local names = call('ZRANGE', clients, '+inf', '(' .. text(now), 'BYSCORE', 'REV', 'LIMIT', 0, ARGV[2])
local found = {}
-- Lua passes at most some thousand arguments.
for from = 1, #names, 500 do
  local fields = {}
  for i = from, math.min(from + 499, #names) do fields[#fields + 1] = 'c' .. names[i] end
  local values = call('HMGET', entries, unpack(fields))
  for i = 1, #values do
    if values[i] then
      found[#found + 1] = names[from + i - 1]
      found[#found + 1] = values[i]
    end
  end
end
return found
