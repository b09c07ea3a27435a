(println "hello, wörld")
