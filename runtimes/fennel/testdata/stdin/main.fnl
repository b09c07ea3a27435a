(var sum 0)
(each [line (io.lines)]
  (set sum (+ sum (math.tointeger line))))
(print (table.concat [sum (table.unpack arg)] " "))
