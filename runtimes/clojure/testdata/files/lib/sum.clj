(defn sum [text]
  (reduce + (map parse-long (re-seq #"\d+" text))))
