-- The identity of this Redis, the record of its ledger, and the live nodes; see IdentityStore.
-- KEYS: HASH: id; ledger, the record as JSON; node:<name> -> `<end of its lease by the ledger's clock> <when it
--       appeared last, by the clock of Redis>`, both in Unix milliseconds
-- ARGV: the operation, milliseconds for which a node counts as alive, then
--   read:        nothing. Returns {the time, alternating fields and values}.
--   pair, adopt: id, expected record ('' if none), new record. Returns 1, or 0 if nothing changed.
--   show:        node, end of its lease, id, record. Returns 1, or 0 if the id or the ledger is another one.
--   hide:        node
local call = redis.call
local key, act, liveness = KEYS[1], ARGV[1], tonumber(ARGV[2])
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Whether a node is alive. Removes those that ended long ago.
local function has_live_nodes()
  local all, found = call('HGETALL', key), false
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 5) == 'node:' then
      local age = now - tonumber(string.match(all[i + 1], ' (%d+)$'))
      if age >= 0 and age < liveness then found = true end
      if age > 100 * liveness then call('HDEL', key, all[i]) end
    end
  end
  return found
end

if act == 'read' then
  local answer = call('HGETALL', key)
  table.insert(answer, 1, string.format('%.0f', now))
  return answer
end

local id, record = unpack(call('HMGET', key, 'id', 'ledger'))
if act == 'pair' or act == 'adopt' then
  local has_nodes = has_live_nodes()
  if id and id ~= ARGV[3] or (record or '') ~= ARGV[4] or act == 'adopt' and has_nodes then return 0 end
  call('HSET', key, 'id', ARGV[3], 'ledger', ARGV[5])
  return 1
end

local node = 'node:' .. ARGV[3]
if act == 'hide' then return call('HDEL', key, node) end
-- Another node may have reached the ledger by another name: only its id counts.
if id and (id ~= ARGV[5] or cjson.decode(record).id ~= cjson.decode(ARGV[6]).id) then return 0 end
if not id then call('HSET', key, 'id', ARGV[5], 'ledger', ARGV[6]) end
call('HSET', key, node, ARGV[4] .. ' ' .. string.format('%.0f', now))
return 1
