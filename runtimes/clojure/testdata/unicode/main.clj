(let [line (read-line)]
  (println line (.codePointCount line 0 (count line))))
