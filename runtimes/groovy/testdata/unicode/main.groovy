def line = System.in.newReader("UTF-8").readLine()
println "$line ${line.codePointCount(0, line.size())}"
