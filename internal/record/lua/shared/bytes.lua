-- Counters of bytes. One that is no number counts as 0 and begins anew with what is counted next:
-- an error would end the script halfway, with half of its work done.

local function sum(key)
  local n = redis.pcall('GET', key)
  return type(n) == 'string' and tonumber(n) or 0
end

local function count(key, bytes)
  bytes = math.floor(tonumber(bytes) or 0)
  if bytes == 0 then return end -- also -0, which Redis takes for no number
  bytes = string.format('%.0f', bytes)
  local n = redis.pcall('INCRBY', key, bytes)
  if type(n) == 'table' then -- spoiled, or else Redis is full, say
    n = (string.find(n.err, 'WRONGTYPE') or string.find(n.err, 'integer') or string.find(n.err, 'overflow')) and 0 or call('INCRBY', key, bytes)
  end
  if n <= 0 then call('DEL', key) end
end
