(let ((sum 0))
  (loop for n = (read nil nil) while n do (incf sum n))
  (format t "~a~{ ~a~}~%" sum (cdr *posix-argv*)))
