(let loop ((sum 0))
  (let ((n (read)))
    (if (eof-object? n)
        (begin
          (display (string-join (cons (number->string sum) (cdr (command-line)))))
          (newline))
        (loop (+ sum n)))))
