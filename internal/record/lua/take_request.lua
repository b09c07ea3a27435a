-- take_request takes a request from a tenant's quota. It is GCRA: the key says when the quota is whole again, and each request
-- puts that off by its share of the window. The clock is Redis's, as hosts' clocks differ by more than a share.
-- @const rate_window  time that the quota of requests is for, µs
-- @number quota       requests in a window
-- @answer wait, remaining, reset  µs until the request would be admitted (0: it is), requests left, µs until the quota is whole

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local share = math.ceil(rate_window / quota)
local whole = math.max(now, tonumber(call('GET', t .. 'rate') or 0)) + share
local room = now + share * quota - whole
if room < 0 then return {-room, 0, whole - share - now} end
call('SET', t .. 'rate', string.format('%.0f', whole), 'PX', math.ceil((whole - now) / 1000))
return {0, math.floor(room / share), whole - now}
