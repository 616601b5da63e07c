-- Included before the scripts that write one entry to the inboxes of many readers. The hints of all inboxes that have
-- the same connection as their only receiver are one message to it; see node_hints.rs.
-- A message: `<kind><post>`, then ` <user> <offset> <epoch>` for each inbox.
local payload, to_node, user_from
local groups = {}

-- The payload of the hints, and ARGV from an index on: the prefix of the names of connections, and where the name of a
-- log has its user.
local function begin_hints(kind, post, from)
  payload, to_node, user_from = kind .. post, ARGV[from], tonumber(ARGV[from + 1])
end

-- Hints at a new entry, at once or with `send_hints`. Returns the number of receivers; 1 is preliminary.
-- `place` is the number of the inbox among those of the call, `connection` the one on record.
local function hint(place, log, connection, id, head)
  local epoch = sub(head, 17)
  if not connection then return call('PUBLISH', log, id .. ' ' .. epoch .. ' ' .. payload) end
  local group = groups[connection]
  if not group then
    group = {words = {}, places = {}, size = 0}
    groups[connection] = group
  end
  local size = group.size + 1
  group.size, group.places[size] = size, place
  group.words[size] = sub(log, user_from, -4) .. ' ' .. sub(id, 3) .. ' ' .. epoch
  return 1
end

-- Sends the hints of each group. If the connection is gone, they are published on the channels of the inboxes.
-- `first` is the index of the first inbox in KEYS, `receipts` has the number of receivers of each.
local function send_hints(first, receipts)
  for connection, group in pairs(groups) do
    local words, places = group.words, group.places
    local receivers = call('PUBLISH', to_node .. connection, payload .. ' ' .. table.concat(words, ' '))
    if receivers == 0 then
      for i = 1, group.size do
        local log = KEYS[first + 2 * (places[i] - 1)]
        local offset, epoch = string.match(words[i], ' ([^ ]+) ([^ ]+)$')
        call('HDEL', KEYS[first + 2 * (places[i] - 1) + 1], 'c')
        receipts[places[i]] = call('PUBLISH', log, '0-' .. offset .. ' ' .. epoch .. ' ' .. payload)
      end
    end
  end
end

-- Writes, then hints: also if the writes fail half way. Nothing is rolled back if one of both fails; `prepare_repeat`
-- makes a repeat find what was written.
local function write_and_hint(write, first, receipts, prepare_repeat)
  local done, problem = pcall(write)
  local sent, refusal = pcall(send_hints, first, receipts)
  if done and not sent then done, problem = false, refusal end
  if not done and prepare_repeat then prepare_repeat() end
  -- An error of a command keeps its code, which `error` would put behind the position in the script.
  if not done then return redis.error_reply(problem.err or problem) end
  return receipts
end
