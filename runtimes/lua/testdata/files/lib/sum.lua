return function(lines)
  local total = 0
  for line in lines do
    total = total + math.tointeger(line)
  end
  return total
end
