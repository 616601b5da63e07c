-- Adds a new post to the inbox of its author.
-- KEYS: log, meta
-- ARGV: run, post, post padded, length, length with slack
-- Returns 1 if it was written, 0 if the inbox has the post, or if there is no inbox.
local log, meta, post, padded = KEYS[1], KEYS[2], ARGV[2], ARGV[3]
local found = call('HMGET', meta, 'h', 'r', 'f', 'o')
local head = found[1]
if not head or found[2] ~= ARGV[1] or padded <= pad(found[3]) or call('EXISTS', log) == 0 then return 0 end

local is_newest = not found[4] or found[4] < padded
if (not is_newest or head >= padded) and not is_news('p', last_word(log, post), head) then return 0 end
if is_newest then call('HSET', meta, 'o', padded) end
local id = call('XADD', log, '0-*', 'p', post)
call('PUBLISH', log, id .. ' ' .. sub(head, 17) .. ' p' .. post)
if call('XLEN', log) >= tonumber(ARGV[5]) then trim(log, meta, tonumber(ARGV[4])) end
return 1
