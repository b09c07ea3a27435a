-- note_run notes what was decided about a step of a run, or why a job of one could not be made. What was noted first stays.
-- @include memory
-- @include run
-- @arg id       of the run
-- @arg field    of the run's record: "step:" and the step's name, or "why:" and the item
-- @arg value    JSON, or why
-- @arg item     whose job could not be made: step and index, with : between; or ''
-- @arg try      of that
-- @answer ok       it is noted, or was before
-- @answer missing  there is no such run, or it has ended

if call('HGET', run_key(id), 'state') ~= 'running' then return 'missing' end
if item ~= '' then
  local held = tonumber(string.match(call('HGET', run_items(id), item) or '', '^%d+') or 0)
  if held >= tonumber(try) then return 'ok' end
  call('HSET', run_items(id), item, try .. ' refused')
  call('HINCRBY', run_items(id), 'rev', 1)
  look_at(id)
end
if call('HSETNX', run_key(id), field, value) == 1 then
  local bytes = text_cost(#field + #value)
  call('HINCRBY', run_key(id), 'charge', bytes)
  charge(bytes)
end
return 'ok'
