cat("hello, wörld\n")
