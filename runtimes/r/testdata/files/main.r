source("lib/sum.r")

total <- sum_of("data/in.txt")
write.csv(data.frame(total = total), "out.txt")
cat(total, "\n", sep = "")
