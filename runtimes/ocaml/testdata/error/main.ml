let () =
  print_endline "before";
  failwith "on purpose"
