line <- readLines(file("stdin"))
cat(line, nchar(line), "\n")
