IO.puts("before")
raise "on purpose"
