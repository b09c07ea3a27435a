-- claim_upload marks an upload whose time is over as being deleted.
-- @arg upload  its entry: upload:<sha256>
-- @arg again   when it is due again, if nothing becomes of it, ms
-- @answer ok    the caller deletes it
-- @answer held  somebody has asked for it meanwhile

local due = call('ZSCORE', t .. 'garbage', upload)
if not due or tonumber(due) > tonumber(again) then return 'held' end
local bytes, charged = string.match(call('HGET', t .. 'kept', upload) or '', '^(%d+) %d (%d+)$')
call('HSET', t .. 'kept', upload, (bytes or '0') .. ' 1 ' .. (charged or '0'))
return 'ok'
