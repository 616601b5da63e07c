-- Opens an inbox.
-- KEYS: log, meta
-- ARGV: run, new epoch, milliseconds to stay, the same for the meta, the caller's connection that receives the hints of
-- the inbox ('' if none does).
-- Returns {0, epoch} if it is to be filled, else {1, epoch, top, mark}.
local log, meta = KEYS[1], KEYS[2]
local found = call('HMGET', meta, 'h', 'r', 'w', 'c')
local head = found[1]
-- An inbox that another run of Redis wrote may lack its end: Redis may have loaded an outdated file.
if not head or found[2] ~= ARGV[1] or call('EXISTS', log) == 0 then
  call('DEL', log, meta)
  call('XGROUP', 'CREATE', log, '-', '$', 'MKSTREAM')
  call('XGROUP', 'DESTROY', log, '-')
  head = UNFILLED .. ARGV[2]
  call('HSET', meta, 'h', head, 'f', '0', 'r', ARGV[1])
  found[4] = false
end
note_listener(log, meta, ARGV[5], found[4])
call('PEXPIRE', log, ARGV[3])
call('PEXPIRE', meta, ARGV[4])
if sub(head, 1, 16) == UNFILLED then return {0, sub(head, 17)} end
return {1, sub(head, 17), top(log), found[3] or '0'}
