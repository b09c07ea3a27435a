local sum = 0
for line in io.lines() do
  sum = sum + tonumber(line)
end
print(table.concat({ sum, table.unpack(arg) }, " "))
