:- initialization(main, main).

main(_) :-
    read_line_to_string(user_input, Line),
    string_length(Line, Length),
    format("~w ~w~n", [Line, Length]).
