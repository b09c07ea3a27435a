BEGIN { print "hello, wörld" }
