/* REXX */
say "hello, wörld"
