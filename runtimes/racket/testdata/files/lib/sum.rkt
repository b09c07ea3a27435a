#lang racket/base
(provide sum)

(define (sum lines) (apply + (map string->number lines)))
