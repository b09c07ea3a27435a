(format t "hello, wörld~%")
