%% Counts characters.
main(_) ->
    ok = io:setopts([{encoding, unicode}]),
    Line = string:trim(io:get_line("")),
    io:format("~ts ~b~n", [Line, string:length(Line)]).
