-- A job's stream of events. Every entry has the same fields in the same order.

local function append_event(events, kind, epoch, seq, offset, total, data)
  call('XADD', events, '*', 'type', kind, 'epoch', epoch, 'seq', seq, 'offset', offset, 'total', total, 'data', data)
end

-- stream_end reads the last entry, nil of a stream without any.
local function stream_end(events)
  local last = call('XREVRANGE', events, '+', '-', 'COUNT', 1)[1]
  if not last then return nil end
  return {epoch = last[2][4], seq = tonumber(last[2][6]), total = tonumber(last[2][10])}
end
