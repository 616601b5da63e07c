-- Removes processed entries from a partition of the queue, for the process that owns it.
-- KEYS: fence, Stream, epoch. The fence is the generation of the last owner that trimmed, and the incarnation of the
-- ledger that counts generations.
-- ARGV: generation, incarnation, epoch, the first offset to keep, milliseconds for which the fence is kept
-- Returns 1, or 0 if a later owner has trimmed, or the epoch is another one.
local call = redis.call
local generation, incarnation = string.match(call('GET', KEYS[1]) or '', '^(%d+) (.*)$')
if incarnation == ARGV[2] and tonumber(generation) > tonumber(ARGV[1]) then return 0 end
if call('GET', KEYS[3]) ~= ARGV[3] then return 0 end
call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[5])
call('XTRIM', KEYS[2], 'MINID', '=', ARGV[4])
return 1
