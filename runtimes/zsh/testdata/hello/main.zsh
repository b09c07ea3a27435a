print "hello, wörld"
