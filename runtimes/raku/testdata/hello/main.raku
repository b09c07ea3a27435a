say "hello, wörld";
