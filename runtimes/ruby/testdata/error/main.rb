puts "before"
raise "on purpose"
