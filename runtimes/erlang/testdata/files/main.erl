%% Sums up a file.
main(_) ->
    {ok, Text} = file:read_file("data/in.txt"),
    Total = lists:sum([binary_to_integer(Line) || Line <- binary:split(Text, <<"\n">>, [global, trim])]),
    ok = file:write_file("out.txt", integer_to_list(Total)),
    io:format("~b~n", [Total]).
