package record

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/job"
)

// queue is what scripts have in common that move jobs between a tenant's backlog, the
// released ones and those that run (docs/adr/0007-backlog.md).
const queue = countBytes + `
local call, t = redis.call, KEYS[1]
local open, running, queued, line, later = t .. 'open', t .. 'running', t .. 'queued', t .. 'line', t .. 'later'
local function job(id) return t .. 'job:' .. id end
local function backlog(priority) return t .. 'backlog:' .. priority end

-- room is how many jobs more may be released or run.
local function room(window) return tonumber(window) - call('ZCARD', open) - call('HLEN', running) end

local function is_backlogged() return call('EXISTS', backlog('high'), backlog('normal'), backlog('low')) > 0 end

-- waiting is how many jobs are queued: released, which are so many, in the backlog or for later.
local function waiting(opened)
  return opened + call('ZCARD', later) + call('ZCARD', backlog('high')) + call('ZCARD', backlog('normal')) + call('ZCARD', backlog('low'))
end

-- line_up puts n jobs at the end of their backlogs: of each priority a list of place, id, …, the places from 1 to n.
local function line_up(jobs, n)
  if n == 0 then return end
  local before = call('HINCRBY', line, 'last', n) - n
  for priority, list in pairs(jobs) do
    for i = 1, #list, 2 do list[i] = before + list[i] end
    if #list > 0 then call('ZADD', backlog(priority), unpack(list)) end
  end
end

-- open_up releases a job: it wants a task, which the sweeper looks for once due.
local function open_up(id, epoch, priority, now, due)
  call('ZADD', open, due, id)
  call('HSET', job(id), 'released', now)
  return {id, epoch, priority}
end

-- unqueue takes a job that is no longer queued out of where it waits, and its bytes from its tenant's.
local function unqueue(id)
  local r = call('HMGET', job(id), 'bytes', 'priority')
  if call('ZREM', open, id) + call('ZREM', backlog(r[2] or 'normal'), id) == 0 then call('ZREM', later, id) end
  count(queued, -(tonumber(r[1] or 0) or 0))
end

-- Of ten jobs that are released six are high, three normal, one low; a priority without any gives its turn away.
local turns = {'high', 'normal', 'high', 'high', 'low', 'high', 'normal', 'high', 'normal', 'high'}

-- release moves jobs from the backlog to open as long as there is room, so many at most. Entries without a queued job are
-- dropped, 1,000 at most: Redis does nothing else meanwhile.
local function release(window, now, due, most)
  local released, left, dropped = {}, math.min(room(window), most), 0
  if left <= 0 or not is_backlogged() then return released end
  local turn = tonumber(string.match(call('HGET', line, 'turn') or '', '^%d%d?$') or 0)
  while left > 0 and dropped < 1000 and is_backlogged() do
    turn = turn % #turns + 1
    local priority = turns[turn]
    local id = call('ZPOPMIN', backlog(priority))[1]
    local r = id and call('HMGET', job(id), 'state', 'epoch')
    if r and r[1] == 'queued' then -- else a process of before the backlog ended it
      left = left - 1
      released[#released + 1] = open_up(id, r[2], priority, now, due)
    elseif id then
      dropped = dropped + 1
    end
  end
  call('HSET', line, 'turn', turn)
  return released
end
`

var releaseScript = redis.NewScript(queue + `
-- ARGV: now, due, window
for _, id in ipairs(call('ZRANGE', later, '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, 500)) do
  call('ZREM', later, id)
  local r = call('HMGET', job(id), 'state', 'priority')
  if r[1] == 'queued' then line_up({[(r[2] == 'high' or r[2] == 'low') and r[2] or 'normal'] = {1, id}}, 1) end
end
return release(ARGV[3], ARGV[1], ARGV[2], 500)`)

// released is a job that has left its tenant's backlog, or never was in it, and wants a task.
type released struct {
	id       string
	epoch    int
	priority job.Priority
}

// enqueueReleased gives jobs their task that a script released. Those for which that fails
// are the sweeper's work.
func (s *Store) enqueueReleased(ctx context.Context, answer []any) error {
	list, unread := parseReleased(answer)
	if len(list) > 0 {
		failpoint.Hit(failpoint.Released)
	}
	tasks := make([]task, len(list))
	for i, r := range list {
		tasks[i] = runTask(r.id, r.epoch, r.priority, time.Time{})
	}
	return errors.Join(unread, s.enqueueAll(ctx, tasks))
}

// parseReleased reads those that can be read: one record that can't must not leave the jobs of
// others without a task.
func parseReleased(answer []any) ([]released, error) {
	var errs []error
	list := make([]released, 0, len(answer))
	for _, a := range answer {
		var words [3]string
		fields, _ := a.([]any)
		for i := range words {
			if i < len(fields) {
				words[i], _ = fields[i].(string)
			}
		}
		epoch, err := strconv.Atoi(words[1])
		if err != nil || words[0] == "" {
			errs = append(errs, fmt.Errorf("a script says that it released %.100q in epoch %.20q", words[0], words[1]))
			continue
		}
		list = append(list, released{words[0], epoch, job.Priority(words[2])})
	}
	return list, errors.Join(errs...)
}
