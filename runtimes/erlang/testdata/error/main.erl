%% Fails.
main(_) ->
    io:format("before~n"),
    error("on purpose").
