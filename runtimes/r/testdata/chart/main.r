png("plot.png")
plot(c(1, 4, 9, 16))
invisible(dev.off())
cat("drawn\n")
