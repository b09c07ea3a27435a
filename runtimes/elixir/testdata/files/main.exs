Code.require_file("lib/sum.exs")

total = Sum.of(File.read!("data/in.txt"))
File.write!("out.txt", "#{total}\n")
IO.puts(total)
