# Executed by an R that waits for its program (rscript.c), in an environment of its own, in which imports names packages.
# become() is called when the program is there.

imports <- strsplit(imports, " ")[[1]]
for (package in imports) loadNamespace(package)

# What the first program would wait for: R's own functions are loaded as they are first called, and so is what draws.
local({
  file <- file.path(tempdir(), "training.png")
  utils::capture.output({
    d <- data.frame(x = c(1, 2, 3, 4), y = c(2, 1, 4, 3), z = factor(c("a", "b", "a", "b")))
    print(d)
    print(summary(lm(y ~ x, d)))
    str(d)
    print(tapply(d$x, d$z, mean))
    cat(sprintf("%5.2f", pi), paste(rev(strsplit("a b", " ")[[1]]), collapse = ""), format(as.Date(0)), "\n")
    print(tryCatch(stop("so be it"), error = conditionMessage))
    print(matrix(1:4, 2) %*% diag(2))
  })
  png(file, type = "cairo")
  plot(y ~ x, d, main = "x")
  hist(d$x)
  barplot(table(d$z))
  if ("ggplot2" %in% imports) {
    print(ggplot2::ggplot(d, ggplot2::aes(x, y, colour = z)) + ggplot2::geom_point() + ggplot2::geom_col())
  }
  dev.off()
  unlink(file)

  # What that leaves behind.
  assign(".Devices", pairlist("null device"), baseenv())
  .Internal(seterrmessage(""))
  if ("ggplot2" %in% imports) {
    ggplot2::set_last_plot(NULL)
    measured <- ggplot2:::descent_cache # of fonts, on a device of another resolution
    rm(list = ls(measured, all.names = TRUE), envir = measured)
    for (name in c("grobAutoName", "vpAutoName")) assign("index", 0, environment(get(name, asNamespace("grid"))))
  }
})

# cli has a thread that counts the time. None is to be there while R waits.
if (isNamespaceLoaded("cli")) evalq(.Call(clic_stop_thread), asNamespace("cli"))

invisible(gc()) # what waits is to hold little

become <- function() {
  tempdir(TRUE) # a new one: that of its start was removed
  if (isNamespaceLoaded("cli")) {
    local({
      clienv$load_time <- Sys.time()
      .Call(clic_start_thread, environment(dummy), clienv$tick_time, clienv$speed_time)
    }, new.env(parent = asNamespace("cli")))
  }
}
