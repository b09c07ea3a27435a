-- note_fire writes down a job that somebody had a schedule start, besides its times.
-- @const max_fires  how many fires a schedule remembers to show, about
-- @arg name  of the schedule
-- @arg fire  as JSON
-- @answer ok  it is done, or the schedule is gone

if call('HEXISTS', t .. 'schedules', name) == 1 then
  call('XADD', t .. 'fires:' .. name, 'MAXLEN', '~', max_fires, '*', 'fire', fire)
end
return 'ok'
