package job

// Test is one case that a submission is judged by: what it reads, and what a right answer looks
// like. The answer never enters the sandbox.
type Test struct {
	// Name tells the test from the others of the job, "01" or "secret/g1/07". Tests are judged in the
	// order in which they are given; those of a group stand together.
	Name string `json:"name" doc:"Tells the test from the others of the job." example:"01"`
	// Group is the path of the group that the test belongs to, "secret/g1"; "" is the root.
	Group string `json:"group,omitempty" doc:"The path of the test's group, such as secret/g1; absent for the root." example:"secret/g1"`
	// Stdin, StdinBase64 or StdinUpload is what the program reads from its standard input. At most
	// one is given.
	Stdin       string `json:"stdin,omitempty" doc:"What the program reads from standard input."`
	StdinBase64 string `json:"stdin_base64,omitempty" doc:"The same as bytes, in standard base64."`
	StdinUpload string `json:"stdin_upload,omitempty" doc:"The same as the SHA-256, in hex, of content that you have uploaded (POST /v1/uploads)."`
	// Answer, AnswerBase64 or AnswerUpload is what the checker compares the output with.
	Answer       string `json:"answer,omitempty" doc:"What the output is compared with. It never enters the sandbox."`
	AnswerBase64 string `json:"answer_base64,omitempty" doc:"The same as bytes, in standard base64."`
	AnswerUpload string `json:"answer_upload,omitempty" doc:"The same as the SHA-256, in hex, of content that you have uploaded."`
	// Args are the program's arguments in this test, after those of the spec.
	Args []string `json:"args,omitempty" doc:"Further arguments of the program, after those of the spec."`
	// CheckerArgs are arguments of the checker in this test, after its own: of the default checker, or of one that is a
	// program.
	CheckerArgs []string `json:"checker_args,omitempty" doc:"Further arguments of the checker in this test, the default one or a program, after its own."`
	// Points is what an accepted test gives. Defaults to the group's accept_score.
	Points *float64 `json:"points,omitempty" minimum:"0" doc:"What an accepted test gives; defaults to its group's accept_score."`
	// Hidden keeps everything of the test but its name, verdict, score and usage out of the result, and
	// of the tests after it, too: they might print what the program has kept of the hidden one. Times
	// are cut to 10 ms, memory is rounded up to a MiB.
	Hidden bool `json:"hidden,omitempty" doc:"Show name, verdict, score and rounded usage of this test, and nothing else; the same then holds for all tests after it."`
	// Hint is shown when the test is not accepted.
	Hint string `json:"hint,omitempty" doc:"Shown when the test is not accepted, hidden or not."`
}

// Input is what the program reads in the test, as a file.
func (t Test) Input() File { return testFile("stdin", t, t.Stdin, t.StdinBase64, t.StdinUpload) }

// Expected is the test's answer, as a file.
func (t Test) Expected() File { return testFile("answer", t, t.Answer, t.AnswerBase64, t.AnswerUpload) }

// testFile is named for what an error says of it.
func testFile(what string, t Test, text, base64, upload string) File {
	return File{Name: what + " of test " + t.Name, Content: text, ContentBase64: base64, Upload: upload, SHA256: upload}
}

// Checker says how an output is compared with an answer.
type Checker struct {
	// Kind is "default" (tokens, as the Kattis problem package format's default validator), "exact", "lines", "unordered_lines",
	// "regex", "json", or "kattis" or "testlib" for Program. Defaults to "default".
	Kind string `json:"kind,omitempty" enum:"default,exact,lines,unordered_lines,regex,json,kattis,testlib" doc:"How outputs are compared; defaults to default: token by token. kattis, testlib: program decides."`
	// Args are those of the default checker: case_sensitive, space_change_sensitive,
	// float_absolute_tolerance E, float_relative_tolerance E, float_tolerance E. [Checker.Options]
	// reads them. Those of a Program are its own.
	Args []string `json:"args,omitempty" doc:"Of the default checker: case_sensitive, space_change_sensitive, float_absolute_tolerance E, float_relative_tolerance E, float_tolerance E; or of the program, after its files."`
	// Program decides instead, called as Kind says. Only with kind "kattis" or "testlib".
	Program *CheckerProgram `json:"program,omitempty" doc:"A program that decides. With kind kattis as an output validator of the Kattis problem package format does: program input answer feedback_dir/ args < output; it exits with 42 for accepted, 43 for wrong, and anything else is a judge_error. With kind testlib as a checker written with testlib.h: program input output answer args; exit codes 0 accepted, 1, 2, 4 and 8 wrong, 7 a number of points that its message on stderr begins with (points 12.5), 50 to 250 a share in 200ths, as its message says; anything else is a judge_error."`
	// Interactive makes Program an interactor, which talks to the program while both run: each one's standard output is
	// the other's standard input. The test's input, or that of a further pass, is the interactor's alone. Only with Program.
	Interactive bool `json:"interactive,omitempty" doc:"With kind kattis or testlib: the program is an interactor. Its standard output is the standard input of the program that is judged, and the other way round, in each test. The test's stdin and answer are files of the interactor's; the program gets neither. Each side may print up to 8 MiB in a test, or in each of its passes."`
	// Passes is how many times at most the program is run in each test: a checker of kind "kattis" that accepts, and
	// leaves nextpass.in in its feedback directory, has it run once more, with that as its input. Defaults to 1.
	Passes int `json:"passes,omitempty" minimum:"1" maximum:"100" doc:"With kind kattis: how many times at most the program is run in each test. A checker that accepts and leaves nextpass.in in its feedback directory has it run once more, with that as its input, or as the interactor's; the directory's other files are there again. Limits hold for each pass. Defaults to 1." example:"2"`
}

// Group says how the tests and groups directly below a path, its children, add up. Children are in
// the order of the job's tests.
type Group struct {
	// Name is the group's path: "secret/g1" is a child of "secret", which is a child of "", the root.
	Name string `json:"name" doc:"The group's path; the root's is empty." example:"secret/g1"`
	// Score is how the children's scores become the group's. Defaults to "sum".
	Score string `json:"score,omitempty" enum:"sum,min,max,avg,pass_fail" doc:"How scores of children add up; defaults to sum."`
	// Verdict is how the children's verdicts become the group's. Defaults to "first".
	Verdict string `json:"verdict,omitempty" enum:"first,worst,always" doc:"The first rejected child's verdict, the worst one, or always accepted; defaults to first."`
	// AcceptAny makes the group accepted if any child is, and none came to judge_error.
	AcceptAny bool `json:"accept_any,omitempty" doc:"The group is accepted if any of its children is."`
	// AcceptScore and RejectScore are what a test of this group gives. They default to 1 and 0.
	AcceptScore *float64 `json:"accept_score,omitempty" doc:"What an accepted test gives; defaults to 1."`
	RejectScore *float64 `json:"reject_score,omitempty" doc:"What a rejected test gives; defaults to 0."`
	// MaxScore bounds the group's score, and is what pass_fail gives. Defaults to what its children can
	// give, put together as Score says; for pass_fail, their sum.
	MaxScore *float64 `json:"max_score,omitempty" doc:"The most that the group gives; with pass_fail, what it gives if all is accepted."`
	// CheckerScore says which scores of a [Checker.Program] tests directly in the group take; other ones are a judge_error.
	// "none": no score; "within": one up to what the test gives, or a part of that; "required": each accepted test has one, and no part of
	// anything. Defaults to any score, which counts up to the test's points.
	CheckerScore string `json:"checker_score,omitempty" enum:"none,within,required" doc:"Which scores of a checker's program tests directly in the group take, where other ones are to be a judge_error. none: it gives none; within: none above what the test gives; required: it gives each accepted test a number (score.txt, points), and no share. Absent: any, up to the test's points, if it has some."`
	// OnReject says whether the group's other tests are run after one that is rejected. Defaults to
	// "continue" where the job has points or scores, else to "break".
	OnReject string `json:"on_reject,omitempty" enum:"continue,break" doc:"After a rejected test: run the group's others, or skip them."`
	// RequirePass names groups that have to be accepted for this one to be run; all groups together
	// name up to [MaxRequired].
	RequirePass []string `json:"require_pass,omitempty" doc:"Groups before this one that have to be accepted; else it is not run, and gives 0."`
}

// Verdict is what a test, a group or a whole submission came to.
type Verdict string

// The verdicts. See docs/grading/ for the words of other judges.
const (
	Accepted             Verdict = "accepted"
	WrongAnswer          Verdict = "wrong_answer"
	TestTimedOut         Verdict = "timed_out"
	RunTimeError         Verdict = "run_time_error"
	TestOutOfMemory      Verdict = "out_of_memory"
	OutputLimit          Verdict = "output_limit_exceeded"
	VerdictCompileFailed Verdict = "compile_failed"
	JudgeError           Verdict = "judge_error"
	SkippedTest          Verdict = "skipped" // of tests, and of groups none of whose tests was run
)

// What a result shows of tests' outputs, so that it stays small.
const (
	ShownOutput  = 4 << 10
	ShownOutputs = 256 << 10
)

// TestResult is what a test came to.
type TestResult struct {
	Name     string  `json:"name"`
	Group    string  `json:"group,omitempty"`
	Verdict  Verdict `json:"verdict"`
	Score    float64 `json:"score"`
	MaxScore float64 `json:"max_score"`
	Hidden   bool    `json:"hidden,omitempty"`
	// Usage is absent for a test that was not run. From the first hidden test on, times are cut to 10 ms
	// and memory is rounded up to a MiB. Of several passes it has the most that one used.
	Usage *Usage `json:"usage,omitempty"`
	// Reruns counts the runs of the test before the one that counts: one that came to its end with
	// somewhat more CPU time than it has, or was ended by the wall clock alone, is run once more.
	Reruns int `json:"reruns,omitempty"`
	// Passes is how many passes were run, where [Checker.Passes] allows more than one.
	Passes int `json:"passes,omitempty"`
	// ExitCode and Signal are as in [Result]. A hidden test and those after it have none of what
	// follows, but for a hint or why the test was not run.
	ExitCode *int   `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"`
	// Stdout and Stderr are the first [ShownOutput] bytes, as UTF-8; of all tests together the first
	// [ShownOutputs].
	Stdout     string      `json:"stdout,omitempty"`
	Stderr     string      `json:"stderr,omitempty"`
	Difference *Difference `json:"difference,omitempty"`
	// Interaction is the beginning of what the program and an interactor said to each other, bounded as Stdout is: what the
	// program read in lines that begin with "<", what it printed in those with ">".
	Interaction string `json:"interaction,omitempty"`
	// Feedback is the checker's word for the author of the submission (teammessage.txt of a program), or the
	// test's hint.
	Feedback string `json:"feedback,omitempty"`
	// JudgeMessage is what the checker's program says to those who made the problem (judgemessage.txt), or
	// why it could not judge. It may quote the answer.
	JudgeMessage string `json:"judge_message,omitempty"`
}

// Difference is the first place where an output is not what was wanted.
type Difference struct {
	// Line and Column count from 1, in the output; a column is a byte.
	Line   int64 `json:"line"`
	Column int64 `json:"column"`
	// Want and Got are cut around the place, at most 128 bytes each, as UTF-8.
	Want string `json:"want"`
	Got  string `json:"got"`
}

// GroupResult is what a group came to.
type GroupResult struct {
	Name     string  `json:"name"`
	Verdict  Verdict `json:"verdict"`
	Score    float64 `json:"score"`
	MaxScore float64 `json:"max_score"`
}
