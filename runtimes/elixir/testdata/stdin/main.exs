sum = IO.stream() |> Enum.map(&String.to_integer(String.trim(&1))) |> Enum.sum()
IO.puts(Enum.join([sum | System.argv()], " "))
