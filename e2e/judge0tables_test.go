package e2e

import (
	"slices"
	"strings"
	"testing"
)

// judge0Program is a submission, and what becomes of it.
type judge0Program struct {
	query string
	sent  object
	want  object // fields of the answer
}

// judge0Programs has each status that a program may come to, and each field that changes what is run or answered.
func judge0Programs(t *testing.T) map[string]judge0Program {
	t.Helper()
	const (
		python, bash, c, cpp, executable, multi, plainText = 71, 46, 50, 54, 44, 89, 43
	)
	none := any(nil)
	return map[string]judge0Program{
		"accepted": {"", object{"language_id": python, "source_code": "print(6 * 7)"}, object{
			"status": object{"id": 3.0, "description": "Accepted"}, "stdout": "42\n", "stderr": none, "compile_output": none, "message": none, "exit_code": 0.0, "exit_signal": none,
			"language_id": 71.0, "source_code": "print(6 * 7)", "stdin": none, "cpu_time_limit": "5.0", "wall_time_limit": "10.0", "stack_limit": 64000.0,
			"number_of_runs": 1.0, "enable_network": false, "callback_url": none,
		}},
		"numbers as text":      {"", object{"language_id": "71", "source_code": "print(1)", "cpu_time_limit": "12.5"}, object{"status_id": 3.0, "cpu_time_limit": "12.5"}},
		"unknown fields":       {"", object{"language_id": python, "source_code": "print(1)", "whatever": object{"a": 1}}, object{"status_id": 3.0}},
		"expected":             {"", object{"language_id": python, "source_code": "print('a  \\nb\\n\\n')", "expected_output": "a\nb"}, object{"status_id": 3.0, "expected_output": "a\nb"}},
		"wrong answer":         {"", object{"language_id": python, "source_code": "print('a')", "expected_output": "b"}, object{"status": object{"id": 4.0, "description": "Wrong Answer"}, "stdout": "a\n"}},
		"nothing expected":     {"", object{"language_id": bash, "source_code": "true", "expected_output": ""}, object{"status_id": 3.0}},
		"stdin":                {"", object{"language_id": python, "source_code": "print(input()[::-1])", "stdin": "abc"}, object{"status_id": 3.0, "stdout": "cba\n", "stdin": "abc"}},
		"exit code":            {"", object{"language_id": bash, "source_code": "echo oh >&2; exit 3"}, object{"status": object{"id": 11.0, "description": "Runtime Error (NZEC)"}, "exit_code": 3.0, "message": "Exited with error status 3", "stderr": "oh\n"}},
		"segmentation fault":   {"", object{"language_id": c, "source_code": "int main(void) { *(volatile int *)8 = 1; }"}, object{"status_id": 7.0, "exit_signal": 11.0, "message": "Caught fatal signal 11", "exit_code": none}},
		"floating point error": {"", object{"language_id": c, "source_code": "#include <signal.h>\nint main(void) { raise(SIGFPE); }"}, object{"status_id": 9.0, "exit_signal": 8.0}},
		"abort":                {"", object{"language_id": cpp, "source_code": "#include <cstdlib>\nint main() { abort(); }"}, object{"status_id": 10.0, "exit_signal": 6.0}},
		"another signal":       {"", object{"language_id": c, "source_code": "#include <signal.h>\nint main(void) { raise(SIGTERM); }"}, object{"status_id": 12.0, "exit_signal": 15.0}},
		"CPU time":             {"", object{"language_id": c, "source_code": "int main(void) { for (volatile int i = 0;; i++); }", "cpu_time_limit": 0.5, "cpu_extra_time": 0.5}, object{"status": object{"id": 5.0, "description": "Time Limit Exceeded"}, "message": "Time limit exceeded", "stderr": none}},
		"wall time":            {"", object{"language_id": bash, "source_code": "echo begun; sleep 100", "wall_time_limit": 8}, object{"status_id": 5.0, "stdout": "begun\n", "stderr": none, "message": "Time limit exceeded (wall clock)"}},
		"memory":               {"", object{"language_id": python, "source_code": "x = [b'x' * (1 << 21) for _ in range(1000)]", "memory_limit": 131072, "cpu_time_limit": 15, "wall_time_limit": 30}, object{"status_id": 12.0, "exit_signal": 9.0}},
		"output":               {"", object{"language_id": bash, "source_code": "yes", "max_file_size": 10}, object{"status_id": 8.0}},
		"compile error":        {"", object{"language_id": c, "source_code": "int main(void) { return answer; }"}, object{"status": object{"id": 6.0, "description": "Compilation Error"}, "stdout": none, "stderr": none, "time": none, "memory": none, "exit_code": none, "message": none}},
		"a compiler's limits":  {"", object{"language_id": c, "source_code": "#include <stdio.h>\nint main(void) { puts(\"one\"); }", "max_processes_and_or_threads": 1}, object{"status_id": 3.0, "stdout": "one\n"}},
		"compiler options":     {"", object{"language_id": c, "compiler_options": "-DANSWER='42' -Wall;", "source_code": "#include <stdio.h>\nint main(void) { printf(\"%d\\n\", ANSWER); }"}, object{"status_id": 3.0, "stdout": "42\n", "compiler_options": "-DANSWER='42' -Wall;"}},
		"arguments":            {"", object{"language_id": python, "command_line_arguments": "one 'two three' $HOME `id`", "source_code": "import sys; print(sys.argv[1:])"}, object{"status_id": 3.0, "stdout": "['one', 'two three', 'HOME', 'id']\n"}},
		"merged streams":       {"", object{"language_id": bash, "source_code": "echo a; echo b >&2; echo c", "redirect_stderr_to_stdout": true}, object{"status_id": 3.0, "stdout": "a\nb\nc\n", "stderr": none, "redirect_stderr_to_stdout": true}},
		"several runs":         {"", object{"language_id": python, "source_code": "print(1)", "number_of_runs": 3}, object{"status_id": 3.0, "stdout": "1\n", "number_of_runs": 3.0}},
		"base64": {"base64_encoded=true", object{"language_id": python, "source_code": encoded("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read() * 20)"), "stdin": encoded("\xff\x00a"), "expected_output": encoded(strings.Repeat("\xff\x00a", 20))}, object{
			"status_id": 3.0, "stdin": encoded("\xff\x00a") + "\n", "stdout": rubyBase64(strings.Repeat("\xff\x00a", 20)), "stderr": none,
		}},
		"files":                  {"", object{"language_id": python, "source_code": "import sub.a; print(open('d.txt').read(), sub.a.x)", "additional_files": zipped(t, "d.txt", "data", "sub/a.py", "x = 7", "main.py", "print('replaced')")}, object{"status_id": 3.0, "stdout": "data 7\n"}},
		"files that it leaves":   {"", object{"language_id": bash, "source_code": "mkdir d; printf one >d/f; echo out"}, object{"status_id": 3.0, "stdout": "out\n", "post_execution_filesystem": map[string]string{"d/f": "one"}}},
		"no files":               {"", object{"language_id": bash, "source_code": "true"}, object{"post_execution_filesystem": none}},
		"plain text":             {"", object{"language_id": plainText, "source_code": "as it is\n"}, object{"status_id": 3.0, "stdout": "as it is\n"}},
		"executable":             {"base64_encoded=true", object{"language_id": executable, "source_code": encoded("#!/bin/bash\necho run\n")}, object{"status_id": 3.0, "stdout": encoded("run\n") + "\n"}},
		"no executable":          {"base64_encoded=true", object{"language_id": executable, "source_code": encoded("\x7fELF\xff\xff\xff\xff\x00\x00")}, object{"status_id": 14.0}},
		"several files":          {"", object{"language_id": multi, "additional_files": zipped(t, "compile", "gcc -o prog a.c b.c", "run", "./prog", "a.c", "int b(void); int main(void) { return b(); }", "b.c", "#include <stdio.h>\nint b(void) { puts(\"b\"); return 0; }")}, object{"status_id": 3.0, "stdout": "b\n", "source_code": none}},
		"several files in shell": {"", object{"language_id": multi, "additional_files": zipped(t, "run.sh", "cat text", "text", "t\n")}, object{"status_id": 3.0, "stdout": "t\n"}},
		"a long output":          {"", object{"language_id": python, "source_code": "print('x' * 200_000)", "expected_output": strings.Repeat("x", 200_000)}, object{"status_id": 3.0, "stdout": strings.Repeat("x", 200_000) + "\n"}},
		"extra time":             {"", object{"language_id": c, "source_code": "#include <stdio.h>\n#include <time.h>\nint main(void) { while (clock() < CLOCKS_PER_SEC) {} puts(\"done\"); }", "cpu_time_limit": 0.5, "cpu_extra_time": 5, "wall_time_limit": 60}, object{"status_id": 5.0, "stdout": "done\n", "exit_code": 0.0, "message": "Time limit exceeded"}},
		"a small stack":          {"", object{"language_id": c, "source_code": usingStack, "stack_limit": 1024}, object{"status_id": 7.0, "stack_limit": 1024.0}},
		"a large stack":          {"", object{"language_id": c, "source_code": usingStack}, object{"status_id": 3.0, "stack_limit": 64000.0}},
		"processes":              {"", object{"language_id": python, "source_code": "import os\nfor i in range(60):\n  try:\n    if os.fork() == 0: os.read(0, 1); os._exit(0)\n  except BlockingIOError: print('refused'); os._exit(0)\nprint('all')", "max_processes_and_or_threads": 10}, object{"status_id": 3.0, "stdout": "refused\n"}},
		"a run that fails":       {"", object{"language_id": bash, "source_code": "exit 1", "number_of_runs": 2}, object{"status_id": 11.0, "exit_code": 1.0}},
		"a large submission":     {"", object{"language_id": python, "source_code": "print(1) # " + randomText(60_000)}, object{"status_id": 3.0, "stdout": "1\n"}},
	}
}

// usingStack is a program of C that uses 4 MiB of stack.
const usingStack = "#include <string.h>\nint main(void) { volatile char a[4 << 20]; memset((char *)a, 1, sizeof a); return a[9] - 1; }"

func judge0Told(t *testing.T) []told {
	t.Helper()
	return linesOf(judge0Programs(t), func(name string, p judge0Program) told {
		sent := jsonOf(t, p.sent)
		if p.query != "" {
			sent += " ?" + p.query
		}
		return told{name, sent, jsonOf(t, p.want)}
	})
}

// judge0Requests are one to each route, and each error that needs no program.
func judge0Requests(t *testing.T) (list []exchange) {
	t.Helper()
	hello := object{"language_id": 46, "source_code": "echo hi"}
	with := func(field string, value any) object {
		return object{"language_id": 46, "source_code": "echo hi", field: value}
	}
	bomb := zipped(t, "zeros", strings.Repeat("\x00", 30<<20))
	for _, tt := range []struct {
		method, path string
		body         any
		status       int
		answer       string // a part of it
	}{
		{"POST", "/submissions", object{}, 422, `{"language_id":["can't be blank"],"source_code":["can't be blank"]}`},
		{"POST", "/submissions", "", 422, `"language_id":["can't be blank"]`},
		{"POST", "/submissions", "{", 400, `{"error":`},
		{"POST", "/submissions", "[]", 400, `{"error":`},
		{"POST", "/submissions", with("source_code", " \n"), 422, `{"source_code":["can't be blank"]}`},
		{"POST", "/submissions", with("source_code", object{"a": 1}), 422, `{"source_code":["can't be blank"]}`},
		{"POST", "/submissions", with("language_id", 150000), 422, `{"language_id":["language with id 150000 doesn't exist"]}`},
		{"POST", "/submissions", with("language_id", 4), 422, `{"language_id":["language with id 4 is archived and cannot be used anymore"]}`},
		{"POST", "/submissions", with("language_id", "bash"), 422, `{"language_id":["is not a number"]}`},
		{"POST", "/submissions", with("language_id", 1e300), 422, `{"language_id":["is not a number"]}`},
		{"POST", "/submissions", with("cpu_time_limit", 1000), 422, `{"cpu_time_limit":["must be less than or equal to 300.0"]}`},
		{"POST", "/submissions", with("cpu_time_limit", "NaN"), 422, `{"cpu_time_limit":["is not a number"]}`},
		{"POST", "/submissions", with("cpu_time_limit", -1), 422, `{"cpu_time_limit":["must be greater than or equal to 0"]}`},
		{"POST", "/submissions", with("cpu_extra_time", 5.5), 422, `{"cpu_extra_time":["must be less than or equal to 5.0"]}`},
		{"POST", "/submissions", with("wall_time_limit", 301), 422, `{"wall_time_limit":["must be less than or equal to 300.0"]}`},
		{"POST", "/submissions", with("memory_limit", 2097153), 422, `{"memory_limit":["must be less than or equal to 2097152"]}`},
		{"POST", "/submissions", with("stack_limit", 128001), 422, `{"stack_limit":["must be less than or equal to 128000"]}`},
		{"POST", "/submissions", with("stack_limit", -1), 422, `{"stack_limit":["must be greater than or equal to 0"]}`},
		{"POST", "/submissions", with("max_processes_and_or_threads", 1025), 422, `{"max_processes_and_or_threads":["must be less than or equal to 1024"]}`},
		{"POST", "/submissions", with("max_file_size", -1), 422, `{"max_file_size":["must be greater than or equal to 0"]}`},
		{"POST", "/submissions", with("number_of_runs", 0), 422, `{"number_of_runs":["must be greater than or equal to 1"]}`},
		{"POST", "/submissions", with("enable_per_process_and_thread_memory_limit", true), 422, `["this option cannot be enabled"]`},
		{"POST", "/submissions", with("wall_time_limit", 0.5), 422, `{"wall_time_limit":["must be greater than or equal to 1"]}`},
		{"POST", "/submissions", with("memory_limit", 1), 422, `{"memory_limit":["must be greater than or equal to 2048"]}`},
		{"POST", "/submissions", with("max_processes_and_or_threads", 0), 422, `{"max_processes_and_or_threads":["must be greater than or equal to 1"]}`},
		{"POST", "/submissions", with("number_of_runs", 21), 422, `{"number_of_runs":["must be less than or equal to 20"]}`},
		{"POST", "/submissions", with("command_line_arguments", strings.Repeat("x", 513)), 422, `{"command_line_arguments":["is too long (maximum is 512 characters)"]}`},
		{"POST", "/submissions", with("compiler_options", "-O2"), 422, `{"compiler_options":["setting compiler options is only allowed for `},
		{"POST", "/submissions", with("enable_network", true), 422, `{"enable_network":["enabling network is not allowed"]}`},
		{"POST", "/submissions", with("enable_per_process_and_thread_time_limit", true), 422, `["this option cannot be enabled"]`},
		{"POST", "/submissions", with("callback_url", "http://10.0.0.1/"), 422, `{"callback_url":["`},
		{"POST", "/submissions", with("callback_url", "no URL"), 422, `{"callback_url":["`},
		{"POST", "/submissions", object{"language_id": 46, "source_code": "true", "callback_url": "https://example.com", "max_file_size": 4097}, 422, `{"max_file_size":["must be less than or equal to 4096"]}`},
		{"POST", "/submissions", with("additional_files", "no zip"), 422, `{"additional_files":["is no zip archive"]}`},
		{"POST", "/submissions", with("additional_files", zipped(t, "../../etc/passwd", "x")), 422, `{"additional_files":["has a file whose name is not a plain path`},
		{"POST", "/submissions", with("additional_files", zipped(t, "/etc/passwd", "x")), 422, `{"additional_files":["has a file whose name is absolute`},
		{"POST", "/submissions", with("additional_files", bomb), 422, `{"additional_files":["holds more than 10240 kilobytes"]}`},
		{"POST", "/submissions", object{"language_id": 89}, 422, `{"additional_files":["can't be blank"]}`},
		{"POST", "/submissions", object{"language_id": 89, "source_code": "x", "additional_files": zipped(t, "run", "true")}, 422, `{"source_code":["must be blank"]}`},
		{"POST", "/submissions", object{"language_id": 89, "additional_files": zipped(t, "main", "true")}, 422, `{"additional_files":["has no file run or run.sh"]}`},
		{"POST", "/submissions?wait=true&fields=x", hello, 400, `{"error":"invalid fields: [x]"}`},
		{"POST", "/submissions?fields=x", hello, 400, `{"error":"invalid fields: [x]"}`},
		{"GET", "/submissions/{token}?fields=status,y,z", nil, 400, `{"error":"invalid fields: [y, z]"}`},
		{"GET", "/submissions/00000000-0000-4000-8000-000000000000", nil, 404, ""},
		{"GET", "/submissions/..%2f..%2fv1%2fjobs", nil, 404, ""},
		{"GET", "/../v1/jobs", nil, 404, ""},
		{"POST", "/submissions/batch", object{"submissions": []any{}}, 400, `{"error":"there should be at least one submission in a batch"}`},
		{"POST", "/submissions/batch", object{"submissions": "x"}, 400, `{"error":`},
		{"POST", "/submissions/batch", object{"submissions": make([]object, 101)}, 400, `{"error":"number of submissions in a batch should be less than or equal to 100"}`},
		{"POST", "/submissions/batch", object{"submissions": []any{7, nil, object{}}}, 422, `[{"language_id":["can't be blank"],`},
		{"GET", "/submissions/batch", nil, 400, `{"error":"there should be at least one submission in a batch"}`},
		{"GET", "/submissions/batch?tokens=" + strings.Repeat("a,", 101), nil, 400, `{"error":"number of submissions`},
		{"POST", "/submissions", "{100 MiB}", 413, `{"error":"the body is too large`},
		{"POST", "/submissions/batch", "{100 MiB}", 413, `{"error":"the body is too large`},
		{"GET", "/submissions/{token}", nil, 200, `"status":{"id":3,"description":"Accepted"}`},
		{"GET", "/submissions/batch?tokens={token},x&fields=stdout", nil, 200, `{"submissions":[{"stdout":"hi\n"},null]}`},
		{"GET", "/submissions?per_page=1&fields=token", nil, 200, `{"submissions":[{"token":"`},
		{"POST", "/submissions", hello, 201, `{"token":"`},
		{"POST", "/submissions?wait=true&fields=stdout", hello, 201, `{"stdout":"hi\n"}`},
		{"POST", "/submissions/batch", object{"submissions": []any{hello, object{}}}, 201, `"},{"language_id":["can't be blank"],`},
		{"DELETE", "/submissions/{ended}?fields=stdout", nil, 200, `{"stdout":"aGkK\n"}`},
		{"GET", "/submissions/{ended}", nil, 404, ""},
		{"DELETE", "/submissions/00000000-0000-4000-8000-000000000000", nil, 404, ""},
		{"GET", "/", nil, 200, ""},
		{"GET", "/version", nil, 200, "1.13.1"},
		{"GET", "/license", nil, 200, "Apache License 2.0"},
		{"GET", "/isolate", nil, 200, "gVisor"},
		{"GET", "/about", nil, 200, `"version":"1.13.1"`},
		{"GET", "/statuses", nil, 200, `[{"id":1,"description":"In Queue"},{"id":2,"description":"Processing"},{"id":3,"description":"Accepted"},{"id":4,"description":"Wrong Answer"},{"id":5,"description":"Time Limit Exceeded"},{"id":6,"description":"Compilation Error"},{"id":7,"description":"Runtime Error (SIGSEGV)"},{"id":8,"description":"Runtime Error (SIGXFSZ)"},{"id":9,"description":"Runtime Error (SIGFPE)"},{"id":10,"description":"Runtime Error (SIGABRT)"},{"id":11,"description":"Runtime Error (NZEC)"},{"id":12,"description":"Runtime Error (Other)"},{"id":13,"description":"Internal Error"},{"id":14,"description":"Exec Format Error"}]`},
		{"GET", "/languages", nil, 200, `{"id":71,"name":"Python (3.13`},
		{"GET", "/languages/all", nil, 200, `"is_archived":false}`},
		{"GET", "/languages/50", nil, 200, `"source_file":"main.c","compile_cmd":"gcc `},
		{"GET", "/config_info", nil, 200, `"max_submission_batch_size":100`},
		{"GET", "/system_info", nil, 200, "Architecture"},
		{"GET", "/statistics", nil, 200, `"statuses":[`},
		{"GET", "/workers", nil, 200, `"queue":"default"`},
		{"POST", "/authenticate", nil, 200, ""},
		{"POST", "/authorize", nil, 200, ""},
		{"OPTIONS", "/submissions", nil, 204, ""},
		{"GET", "/languages/99999", nil, 404, ""},
		{"GET", "/languages/x", nil, 404, ""},
		{"GET", "/nothing", nil, 404, ""},
		{"PUT", "/submissions", hello, 404, ""},
	} {
		list = append(list, exchange{method: tt.method, path: tt.path, mediaType: "application/json", body: jsonOf(t, tt.body), status: tt.status, answer: tt.answer})
	}
	return append(list,
		exchange{method: "POST", path: "/submissions?wait=true&fields=stdout", mediaType: "application/x-www-form-urlencoded", body: "language_id=46&source_code=echo+form", status: 201, answer: `{"stdout":"form\n"}`},
		exchange{method: "GET", path: "/languages", status: 401, by: noToken},
		exchange{method: "POST", path: "/submissions", mediaType: "application/json", body: jsonOf(t, hello), status: 401, by: wrongToken},
	)
}

// judge0Settings are the keys of /config_info, in order: the Python SDK's model wants each, and no other.
func judge0Settings() []string {
	list := strings.Fields(`maintenance_mode enable_wait_result enable_compiler_options allowed_languages_for_compile_options
		enable_command_line_arguments enable_submission_delete enable_callbacks callbacks_max_tries callbacks_timeout enable_additional_files
		max_queue_size max_extract_size enable_batched_submissions max_submission_batch_size submission_cache_duration use_docs_as_homepage
		redirect_stderr_to_stdout`)
	for _, limit := range strings.Fields("cpu_time_limit cpu_extra_time wall_time_limit memory_limit stack_limit max_processes_and_or_threads max_file_size number_of_runs") {
		list = append(list, limit, "max_"+limit)
	}
	for _, choice := range strings.Fields("enable_network enable_per_process_and_thread_time_limit enable_per_process_and_thread_memory_limit") {
		list = append(list, choice, "allow_"+choice)
	}
	slices.Sort(list)
	return list
}
