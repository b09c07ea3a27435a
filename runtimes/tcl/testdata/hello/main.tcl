puts "hello, wörld"
