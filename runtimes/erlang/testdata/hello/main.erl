%% coding: utf-8
main(_) -> io:put_chars("hello, wörld\n").
