:- initialization(main, main).

main(_) :- writeln('hello, wörld').
