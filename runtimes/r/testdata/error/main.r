cat("before\n")
stop("on purpose")
