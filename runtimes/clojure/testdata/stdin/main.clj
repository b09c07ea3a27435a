(require '[clojure.string :as string])

(let [sum (reduce + (map parse-long (line-seq (java.io.BufferedReader. *in*))))]
  (println (string/join " " (cons sum *command-line-args*))))
