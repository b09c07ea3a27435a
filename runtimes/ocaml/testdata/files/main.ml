let () =
  let lines = In_channel.with_open_text "data/in.txt" In_channel.input_lines in
  let total = List.fold_left (fun total line -> total + int_of_string line) 0 lines in
  Out_channel.with_open_text "out.txt" (fun out -> Printf.fprintf out "%d\n" total);
  Printf.printf "%d\n" total
