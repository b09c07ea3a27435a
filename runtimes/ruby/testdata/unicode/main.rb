line = gets.chomp
puts "#{line} #{line.length}"
