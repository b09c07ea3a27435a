:- initialization(main, main).
:- use_module(lib/sum).

main(_) :-
    read_file_to_string('data/in.txt', Text, []),
    sum(Text, Sum),
    open('out.txt', write, Out),
    writeln(Out, Sum),
    close(Out),
    writeln(Sum).
