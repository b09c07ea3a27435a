IO.puts("hello, wörld")
