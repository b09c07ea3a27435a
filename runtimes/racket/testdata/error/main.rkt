#lang racket/base
(displayln "before")
(error "on purpose")
