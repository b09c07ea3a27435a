println "hello, wörld"
