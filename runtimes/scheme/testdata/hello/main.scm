(display "hello, wörld\n")
