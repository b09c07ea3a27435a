def total = new File("data/in.txt").readLines()*.toInteger().sum()
new File("out.txt").text = "$total\n"
println total
