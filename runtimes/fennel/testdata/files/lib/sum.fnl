(fn [lines]
  (accumulate [total 0 line lines]
    (+ total (math.tointeger line))))
