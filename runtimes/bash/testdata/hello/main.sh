echo "hello, wörld"
