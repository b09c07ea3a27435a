#lang racket/base
(require racket/string)

(define total (for/sum ([line (in-lines)]) (string->number line)))
(displayln (string-join (cons (number->string total) (vector->list (current-command-line-arguments)))))
