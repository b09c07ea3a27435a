(load-file "lib/sum.clj")

(let [total (sum (slurp "data/in.txt"))]
  (spit "out.txt" (str total "\n"))
  (println total))
