#lang racket/base
(define line (read-line))
(printf "~a ~a\n" line (string-length line))
