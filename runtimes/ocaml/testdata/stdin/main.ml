let rec sum total =
  match input_line stdin with
  | line -> sum (total + int_of_string line)
  | exception End_of_file -> total

let () =
  let arguments = List.tl (Array.to_list Sys.argv) in
  print_endline (String.concat " " (string_of_int (sum 0) :: arguments))
