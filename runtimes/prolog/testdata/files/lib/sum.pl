:- module(sum, [sum/2]).

sum(Text, Sum) :-
    split_string(Text, "\n", "\n ", Lines),
    maplist(number_string, Numbers, Lines),
    sum_list(Numbers, Sum).
