let () = print_endline "hello, wörld"
