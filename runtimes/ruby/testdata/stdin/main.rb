puts [$stdin.each_line.sum(&:to_i), *ARGV].join(" ")
