print("hello, wörld")
