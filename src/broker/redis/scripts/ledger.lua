-- Compares a ledger with the record; see LedgerRecord.
-- KEYS: record, a HASH: i identity, n:<kind> the greatest number of that kind that was used, as text of one length
-- ARGV: the operation (match, replace, note), identity, the identity to replace, then alternating kinds and numbers
-- Returns {1} on success, else {0, known identity, alternating kinds and numbers}.
local call = redis.call
local record, act, identity = KEYS[1], ARGV[1], ARGV[2]
local known = call('HGET', record, 'i') or ''
if act == 'replace' and known == ARGV[3] then
  call('DEL', record)
  known = ''
end
if known == '' then
  call('HSET', record, 'i', identity)
  known = identity
end

-- Bounded: a field for each kind of number, and one for each partition of the queue of likes and life of it that this
-- record has seen. A new life begins only when the queue was lost.
local given, all = {}, call('HGETALL', record)
for i = 4, #ARGV, 2 do given['n:' .. ARGV[i]] = ARGV[i + 1] end
local answer, fits = {0, known}, known == identity
for i = 1, #all, 2 do
  if all[i] ~= 'i' then
    -- The ledger no longer has offsets of a queue of likes that was lost.
    local forgotten = not given[all[i]] and string.sub(all[i], 1, 8) == 'n:likes:'
    if act == 'match' and not forgotten and (given[all[i]] or '') < all[i + 1] then fits = false end
    if given[all[i]] and given[all[i]] <= all[i + 1] then given[all[i]] = nil end
    answer[#answer + 1] = string.sub(all[i], 3)
    answer[#answer + 1] = all[i + 1]
  end
end
if not fits then return answer end
for kind, number in pairs(given) do call('HSET', record, kind, number) end
return {1}
