-- note_run notes what was decided about a step of a run, or why a job of one could not be made. What was noted first stays, and of reasons
-- the first most_whys.
-- @include memory
-- @const run_most    what a run's record takes at most, bytes: it is read as a whole
-- @const small_verdict  what may be noted in any case, bytes
-- @const most_whys   of so many items of a run it is noted why their jobs could not be made
-- @include run
-- @arg id       of the run
-- @arg field    of the run's record: "step:" and the step's name, or "why:" and the item
-- @arg value    JSON, or why
-- @arg item     whose job could not be made: step and index, with : between; or ''
-- @arg try      of that
-- @number most_recorded  quota bytes_recorded
-- @answer ok       it is noted, or was before
-- @answer missing  there is no such run, or it has ended
-- @answer run_full  the run's record has no room for what was decided
-- @answer bytes_recorded  the quota has no room for what was decided

if call('HGET', run_key(id), 'state') ~= 'running' then return 'missing' end
local bytes = text_cost(#field + #value)
if item == '' and call('HEXISTS', run_key(id), field) == 0 then
  if bytes > small_verdict and tonumber(call('HGET', run_key(id), 'charge') or 0) + bytes > run_most then return 'run_full' end
  if in_redis() + bytes > most_recorded then return 'bytes_recorded' end
end
if item ~= '' then
  local held = tonumber(string.match(call('HGET', run_items(id), item) or '', '^%d+') or 0)
  if held >= tonumber(try) then return 'ok' end
  call('HSET', run_items(id), item, try .. ' refused')
  items_changed(id)
  look_at(id)
end
if call('HEXISTS', run_key(id), field) == 0 then
  if item ~= '' and call('HINCRBY', run_key(id), 'whys', 1) > most_whys then return 'ok' end
  call('HSET', run_key(id), field, value)
  call('HINCRBY', run_key(id), 'charge', bytes)
  charge(bytes)
end
return 'ok'
