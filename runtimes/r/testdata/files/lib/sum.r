sum_of <- function(file) sum(read.table(file))
