(local sum (require :lib.sum))
(local total (sum (io.lines "data/in.txt")))
(with-open [out (io.open "out.txt" :w)]
  (out:write total "\n"))
(print total)
