print "hello, wörld\n";
