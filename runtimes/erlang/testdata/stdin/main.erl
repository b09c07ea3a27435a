%% Sums up what is read.
main(Arguments) ->
    io:format("~s~n", [lists:join(" ", [integer_to_list(sum(0)) | Arguments])]).

sum(Total) ->
    case io:fread("", "~d") of
        {ok, [N]} -> sum(Total + N);
        eof -> Total
    end.
