let () =
  let line = input_line stdin in
  Printf.printf "%s %d\n" line (String.length line)
