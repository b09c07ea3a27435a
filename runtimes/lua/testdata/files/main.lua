local sum = require("lib.sum")

local total = sum(io.lines("data/in.txt"))
local out = assert(io.open("out.txt", "w"))
out:write(total, "\n")
out:close()
print(total)
