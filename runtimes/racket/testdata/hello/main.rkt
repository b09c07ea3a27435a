#lang racket/base
(displayln "hello, wörld")
