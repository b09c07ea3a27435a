(print "hello, wörld")
