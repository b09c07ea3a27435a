package podman_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// rState is most of what a program can ask about itself and its process, except for what runtimes/README.md lists.
const rState = `
print(commandArgs(trailingOnly = TRUE)); print(commandArgs())
print(search()); print(ls(all.names = TRUE)); print(environmentName(environment())); print(sys.calls()); print(interactive())
e <- Sys.getenv(); e <- e[!names(e) %in% c("PWD", "R_SESSION_TMPDIR", "SHLVL")]; print(paste(names(e), e, sep = "=")); print(getwd()); print(list.files("/tmp", pattern = "^[^R]", all.files = TRUE)); print(list.files())
o <- options(); o <- o[!names(o) %in% c("callr.condition_handler_cli_message", "dplyr.show_progress")]; for (n in names(o)) { cat(n, ": ", sep = ""); str(o[[n]]) }
print(exists(".Random.seed")); print(RNGkind()); print(Sys.getlocale()); print(l10n_info()); print(Sys.timezone()); print(as.POSIXct(0, origin = "1970-01-01"))
print(.libPaths()); print(R.home()); print(capabilities()[c("png", "jpeg", "cairo", "fifo")]); print(extSoftVersion()[["PCRE"]]); print(.Machine$double.eps); print(Sys.info()[c("user", "effective_user")])
print(.Devices); print(.Device); print(dev.cur()); print(showConnections(all = TRUE)); print(nchar(Sys.umask("077")))
print(grepl(paste0("^/tmp/Rtmp"), tempdir())); print(file.info(tempdir())$mode); print(list.files(tempdir())); print(Sys.getenv("R_SESSION_TMPDIR") == tempdir()); print(.Last.value); print(warnings()); print(getOption("warn")); print(traceback()); print(geterrmessage())
status <- readLines("/proc/self/status"); print(status[grepl("^(Cap|Seccomp|NoNewPrivs|Sig|Uid|Gid|PPid)", status)]); l <- readLines("/proc/self/limits"); print(l[!grepl("cpu time", l)])
print(Sys.readlink("/proc/self/fd/0") != ""); print(ls(baseenv(), all.names = TRUE)); print(body(function(x) x + 1)); print(Cstack_info()[["size"]]); print(mem.maxVSize()); print(sessionInfo()$otherPkgs); print(compiler::enableJIT(-1)); print(gc.time()[1] >= 0)
`

// TestPreloadedR: a program does in an R that waited what it does in one that was started for it, and by Rscript.
func TestPreloadedR(t *testing.T) {
	t.Parallel()
	of := onDemandRuntime(t, "r")
	with := func(source string, options ...func(*sandbox.Program)) sandbox.Program {
		return programIn(of, source, options...)
	}
	programs := map[string]sandbox.Program{
		"state":              with(rState),
		"state, told more":   with(rState, stdin("in"), env("MINE", "ä=x"), env("EMPTY", ""), arguments("a", "--b", "c d")),
		"arguments":          with("print(commandArgs(TRUE)); print(commandArgs())", arguments("-e", "ä b", "", "--args", "$HOME", "--file=x", "--version", "-g", "Tk")),
		"stdin":              with(`x <- file("stdin", "rb"); print(readBin(x, "raw", 100)); print(length(readBin(x, "raw", 9)))`, stdin("a\r\nb\x00\xff")),
		"stdin by lines":     with(`f <- file("stdin"); open(f); while (length(l <- readLines(f, n = 1)) > 0) print(l)`, stdin("a\nb\n\nc")),
		"no stdin":           with(`print(readLines(file("stdin"))); print(readline("? ")); print(scan(quiet = TRUE))`),
		"stdin, the script":  with("x <- readLines(stdin(), 2)\none\ntwo\nprint(x)\n"),
		"values":             with("1 + 1\nx <- 5\nx\ninvisible(3)\nNULL\nfunction(a) a\nlist(a = 1, b = \"x\")\ndata.frame(x = 1:3, y = c(\"a\", \"b\", \"ä\"))\nsummary(lm(dist ~ speed, cars))\nhead(mtcars)\n"),
		"last line":          with("cat('x')\n1:3"),
		"exit code":          with("cat('x\\n'); quit(status = 7)"),
		"at the end":         with(".Last <- function() cat('last\\n'); reg.finalizer(globalenv(), function(e) cat('finalizer\\n'), onexit = TRUE); q('no', 3)"),
		"error":              with("f <- function(x) stop('so be ä')\ng <- function() f(1)\ng()\ncat('never\\n')\n"),
		"error handled":      with("tryCatch(stop('e'), error = function(e) print(conditionMessage(e)), finally = cat('finally\\n')); options(error = quote({ traceback(2); q(status = 9) })); f <- function() stop('last'); f()"),
		"warnings":           with("warning('w'); as.integer('x'); message('m'); for (i in 1:60) warning(i); options(warn = 1); warning('now'); options(warn = 2); warning('error')"),
		"syntax":             with("cat('before\\n')\nx <- (1 +\n  ]\n"),
		"unfinished":         with("f <- function() {\n 1\n"),
		"own file":           with("source('lib.r'); print(f(2)); print(readRDS_is_there <- exists('readRDS')); print(basename(getwd()))", files("lib.r", "f <- function(x) x * 21")),
		"profile":            with("print(1)", files(".Rprofile", "cat('profile\\n')", ".Renviron", "A=b", ".RData", "x")),
		"libraries":          with("library(stats4); library(splines); library(parallel); library(grid); suppressWarnings(library(tools)); print(search()); library(nowhere)"),
		"an own package":     with("dir.create('p/R', recursive = TRUE); print(requireNamespace('p', quietly = TRUE)); print(require(nothing))"),
		"statistics":         with("set.seed(1); x <- rnorm(100); print(t.test(x)); print(sample(10)); print(quantile(x)); m <- matrix(1:4, 2); print(solve(m)); print(svd(m)$d); print(optim(c(1, 1), function(p) sum((p - 3)^2))$convergence)"),
		"text":               with("print(sprintf('%5.2f %s', pi, 'ä')); print(regmatches('a1b22', gregexpr('[0-9]+', 'a1b22'))); print(toupper('straße')); print(nchar('日本')); print(rev(utf8ToInt('é'))); print(format(Sys.Date(), '%Y') > '2000'); cat(format(1e6, big.mark = ','), '\\n'); print(strsplit('a,b', ',')); print(iconv('ä', 'UTF-8', 'latin1'))"),
		"time":               with("t <- Sys.time(); Sys.sleep(0.3); print(Sys.time() - t > 0.29); s <- proc.time()[['elapsed']]; Sys.sleep(0.2); print(proc.time()[['elapsed']] - s > 0.19); print(system.time(for (i in 1:10) i)[['elapsed']] < 5)"),
		"objects":            with("setClass('P', representation(x = 'numeric')); setMethod('show', 'P', function(object) cat('P', object@x, '\\n')); new('P', x = 1); A <- setRefClass('A', fields = list(n = 'numeric'), methods = list(inc = function() { n <<- n + 1; invisible(.self) })); a <- A$new(n = 1); a$inc(); print(a$n); print.q <- function(x, ...) cat('q\\n'); structure(1, class = 'q')"),
		"child":              with("print(system('echo $0; env | sort | grep -v SESSION_TMPDIR; exit 4')); print(system2('Rscript', c('-e', shQuote('cat(commandArgs(TRUE), 40 + 2)'), 'a'), stdout = TRUE)); writeLines('x', pipe('cat')); print(system('cat', input = 'in', intern = TRUE))"),
		"forked":             with("library(parallel); print(mclapply(1:4, function(i) i * i, mc.cores = 2)); p <- mcparallel(stop('in it')); print(class(mccollect(p)[[1]]))"),
		"ggplot2":            with("library(ggplot2); ggplot(cars, aes(speed, dist)) + geom_point() + labs(title = 'Größe'); p <- ggplot(mtcars, aes(factor(cyl), fill = factor(gear))) + geom_bar(); print(p); ggsave('own.png', p, width = 3, height = 2, dpi = 72); print(search())"),
		"dplyr":              with("library(dplyr); library(tidyr); library(stringr); cars |> group_by(speed) |> summarise(n = n(), m = mean(dist)); as_tibble(mtcars); str_detect(c('a', 'b'), 'a'); pivot_longer(tibble(x = 1, y = 2), everything()); print(jsonlite::toJSON(list(a = 1))); filter(cars, nothing > 1)"),
		"forked charts":      with("library(parallel); print(unname(mccollect(mcparallel({ plot(cars); dev.off() })))); print(mclapply(1:2, function(i) { png(paste0(i, '.png'), family = 'serif'); plot(cars); dev.off(); i }, mc.cores = 2))"),
		"no last plot":       with("library(ggplot2); print(is.null(last_plot())); try(ggsave('x.png')); print(file.exists('x.png'))"),
		"names of grid":      with("library(grid); textGrob('a'); viewport(); library(ggplot2); print(ggplotGrob(ggplot(cars, aes(speed, dist)) + geom_point())$grobs[[6]])"),
		"charts":             with("plot(cars, main = 'Größe 日本'); hist(c(1, 2, 2, 3)); invisible(dev.off()); barplot(c(a = 1, b = 2)); print(dev.cur()); svg('x.svg'); plot(1); invisible(dev.off()); postscript('y.ps'); plot(1:2); print(dev.list())"),
		"a chart of its own": with("png('mine.png', width = 200, height = 200); image(volcano); invisible(dev.off()); jpeg('j.jpg'); pie(1:3); invisible(dev.off())"),
		"files":              with("write.csv(cars, 'out.csv'); x <- read.csv('out.csv'); print(dim(x)); saveRDS(x, 'x.rds'); print(identical(readRDS('x.rds'), x)); f <- tempfile(); writeLines('t', f); print(readLines(f)); print(dirname(f) == tempdir()); rm(f); save.image()"),
		"signal":             with("cat('x\\n'); tools::pskill(Sys.getpid(), 15); Sys.sleep(10)"),
		"interrupted":        with("tools::pskill(Sys.getpid(), 2); Sys.sleep(10)"),
		"abort":              with("tools::pskill(Sys.getpid(), 6); Sys.sleep(10)"),
		"too long":           with("cat('x\\n'); repeat {}", limits(job.Limits{WallMS: 12_000})),
		"memory":             with("x <- list(); for (i in 1:1000) x[[i]] <- rep(1, 2e6)", limits(job.Limits{MemoryMB: 128, WallMS: 60_000})),
		"memory that fits":   with("x <- numeric(15e6); x[] <- 1; print(sum(x))"),
		"recursion":          with("f <- function(n) f(n + 1); tryCatch(f(1), error = function(e) cat(substr(conditionMessage(e), 1, 40), '\\n')); f(1)"),
		"much output":        with("for (i in 1:5000) cat('line', i, '\\n')"),
		"compiled":           with("f <- function(n) { s <- 0; for (i in 1:n) s <- s + i; s }; for (i in 1:3) f(1e5); print(f(1e6)); print(class(compiler::cmpfun(f)))"),
		"nothing":            with(""),
		"carriage returns":   with("x <- 1\r\nprint(x)\r\nif (x > 0) {\r\n  cat('y\\n')\r\n}\r\n"),
		"a mark":             with("\ufeffprint('bom')\n"),
		"bytes":              with("print('a\xff')\n# \xe4\nprint(2)\n"),
	}
	sameWherePreloaded(t, waitingFor(t, of, "r"), programs, slices.Sorted(maps.Keys(programs)))
	t.Run("Rscript", func(t *testing.T) {
		t.Parallel()
		said := func(variable, value string, command ...string) string {
			program := with(rState, env(variable, value))
			program.Command = append(command, "main.r", "x", "-y")
			o, k := run(t, program)
			if o.Status != job.Succeeded {
				t.Errorf("%v: %+v\n%s", command, o, k.stderr.String())
			}
			return k.stdout.String()
		}
		for variable, value := range map[string]string{"A": "b", "R_SCRIPT_DEFAULT_PACKAGES": "utils,grDevices,stats", "JAVA_HOME": "/work/j", "R_JAVA_LD_LIBRARY_PATH": "", "LD_LIBRARY_PATH": "/work"} {
			if ours, theirs := said(variable, value, of.Run[0]), said(variable, value, "Rscript", "--no-save", "--no-restore", "--no-init-file", "--no-environ"); ours != theirs {
				t.Errorf("with %s=%s, ours (-) and Rscript's (+):\n%s", variable, value, cmp.Diff(ours, theirs))
			}
		}
	})
}

// TestPreloadedRRefuses: a program that the R that waits can't be gets one of its own.
func TestPreloadedRRefuses(t *testing.T) {
	t.Parallel()
	of := onDemandRuntime(t, "r")
	refusesPrograms(t, waitingFor(t, of, "r-refuses"), of, "cat(Sys.timezone(), '\n')", map[string]refused{
		"another time zone":      {env("TZ", "Asia/Tokyo"), "Asia/Tokyo"},
		"fewer packages":         {env("R_SCRIPT_DEFAULT_PACKAGES", "utils"), "Etc/UTC"},
		"threads":                {env("OMP_NUM_THREADS", "3"), "Etc/UTC"},
		"packages of its own":    {env("R_LIBS_USER", "/work"), "Etc/UTC"},
		"another language":       {env("LANG", "C"), "Etc/UTC"},
		"another editor":         {env("EDITOR", "ed"), "Etc/UTC"},
		"a home of R's":          {env("R_HOME", "/work"), "Etc/UTC"},
		"what is to be escaped":  {arguments("a\nb"), "Etc/UTC"},
		"a variable with quotes": {env("A", `"`), "Etc/UTC"},
		"no file":                {func(p *sandbox.Program) { p.Files = nil }, ""},
	})
}

// TestPreloadedRIsFresh: what is drawn at random differs between two that go on from one snapshot.
func TestPreloadedRIsFresh(t *testing.T) {
	t.Parallel()
	of := onDemandRuntime(t, "r")
	drawsAnew(t, waitingFor(t, of, "r-fresh"), of, `
x <- c(runif = runif(1), sample = sample(1e9, 1), tempdir = tempdir(), tempfile = tempfile(), forked = parallel::mclapply(1, function(i) basename(tempfile()))[[1]])
cat(sprintf('{"%s"}', paste(names(x), x, sep = '":"', collapse = '","')))
`)
}
