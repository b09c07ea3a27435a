:- initialization(main, main).

main(Arguments) :-
    read_string(user_input, _, Text),
    split_string(Text, "\n", "\n ", Lines),
    maplist(number_string, Numbers, Lines),
    sum_list(Numbers, Sum),
    atomic_list_concat([Sum | Arguments], ' ', Answer),
    writeln(Answer).
