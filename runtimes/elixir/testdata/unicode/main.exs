line = IO.gets("") |> String.trim()
IO.puts("#{line} #{String.length(line)}")
