println(([System.in.readLines()*.toInteger().sum()] + (args as List)).join(" "))
