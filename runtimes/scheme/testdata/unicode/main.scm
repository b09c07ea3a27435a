(use-modules (ice-9 rdelim))
(define line (read-line))
(format #t "~a ~a~%" line (string-length line))
