#lang racket/base
(require racket/file "lib/sum.rkt")

(define total (sum (file->lines "data/in.txt")))
(display-to-file total "out.txt")
(displayln total)
