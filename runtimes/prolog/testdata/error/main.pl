:- initialization(main, main).

main(_) :-
    writeln(before),
    throw(error(type_error(number, 'on purpose'), _)).
