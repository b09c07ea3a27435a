(load "lib/sum.lisp")

(let ((total (with-open-file (in "data/in.txt") (sum in))))
  (with-open-file (out "out.txt" :direction :output) (print total out))
  (format t "~a~%" total))
