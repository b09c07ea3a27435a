(define (sum port)
  (let loop ((total 0))
    (let ((n (read port)))
      (if (eof-object? n) total (loop (+ total n))))))
