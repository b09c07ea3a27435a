numbers <- scan(file("stdin"), quiet = TRUE)
cat(sum(numbers), commandArgs(trailingOnly = TRUE), "\n")
