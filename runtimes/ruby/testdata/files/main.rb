require "json"
require_relative "lib/sum"

total = sum(File.readlines("data/in.txt"))
File.write("out.txt", { sum: total }.to_json)
puts total
