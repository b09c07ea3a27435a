(load "lib/sum.scm")

(define total
  (call-with-input-file "data/in.txt" sum))
(call-with-output-file "out.txt" (lambda (port) (write total port)))
(display total)
(newline)
