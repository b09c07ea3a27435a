def sum(lines) = lines.sum(&:to_i)
