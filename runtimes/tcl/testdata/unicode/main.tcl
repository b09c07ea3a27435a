gets stdin line
puts "$line [string length $line]"
