// Calls a checker or an interactor that was written with testlib.h as an output validator of the Kattis problem package
// format.
//
// The format calls `validator input answer feedback_dir/ mode [how] < output`, and wants 42 or 43. A checker is called as
// `checker input output answer`, an interactor as `interactor input log answer`, and both say what they found by other
// codes. Before their own main begins, the program starts itself again with those arguments, and translates. Exit code 1
// is the judge's fault.
//
// mode is "whole" where an answer is right or wrong, "part" where points may be given, and "some" where any points are as good as
// right, for samples, which give none. how is nothing for a checker, or
//   interactor            what talks to the submission has the word
//   interactor checker    where it accepts, the program `checker` beside this one judges its log
//   plain                 an interactor of DMOJ's default type: `interactor input answer`, 0 or 1
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

const char *const inner = "GLOVEBOX_TESTLIB_CHECKER";
const int accepted = 42, wrong = 43, failed = 1;

[[noreturn]] void fail(const char *what) {
	std::perror(what);
	_exit(failed);
}

// copy writes all that comes from one file into another.
void copy(int from, int to) {
	char buffer[1 << 16];
	for (;;) {
		ssize_t n = read(from, buffer, sizeof buffer);
		if (n == 0) return;
		if (n < 0) fail("read the output");
		for (ssize_t done = 0; done < n;) {
			ssize_t m = write(to, buffer + done, n - done);
			if (m < 0) fail("write the output");
			done += m;
		}
	}
}

void put(const std::string &path, const std::string &text) {
	FILE *file = std::fopen(path.c_str(), "w");
	if (!file || std::fwrite(text.data(), 1, text.size(), file) != text.size() || std::fclose(file)) fail(path.c_str());
}

// part is a program's word that an output is worth a part of the points.
int part(const std::string &feedback, const std::string &mode, const char *file, double value) {
	if (mode == "whole" || !(value > 0)) return wrong;
	if (mode == "some") return accepted;
	char text[64];
	std::snprintf(text, sizeof text, "%.9f\n", value);
	put(feedback + file, text);
	return accepted;
}

// nameless reports whether a program gives a part of the points, and its exit code is none for that: without TESTSYS, testlib.h
// exits with the share itself, so that _pc(0) looks as if the output were right.
bool nameless(int code, const std::string &message) { return code < 50 && message.rfind("partially correct (", 0) == 0; }

// translate is what a program's exit code means, as testlib.h has it.
int translate(int code, const std::string &message, const std::string &feedback, const std::string &mode) {
	double points;
	int share;
	if (nameless(code, message)) return failed;
	switch (code) {
	case 0:
		return accepted;
	case 1: case 2: case 4: case 8:
		return wrong;
	case 7:
		if (std::sscanf(message.c_str(), "points %lf", &points) != 1) return failed;
		return part(feedback, mode, "score.txt", points);
	}
	if (code >= 50 && code <= 250 && std::sscanf(message.c_str(), "partially correct (%d)", &share) == 1 && share == code - 50)
		return part(feedback, mode, "score_multiplier.txt", share / 200.0);
	return failed;
}

// call runs a program to its end, and returns its exit code, or -1 if a signal ended it. Its message is the beginning of
// what it says on stderr, and on stdout, unless that is what the submission reads.
int call(const std::string &program, bool talks, std::vector<std::string> arguments, std::string &message) {
	char said[] = "/tmp/messageXXXXXX";
	int err = mkstemp(said);
	if (err < 0) fail("make a file");
	unlink(said);
	pid_t child = fork();
	if (child < 0) fail("fork");
	if (child == 0) {
		setenv(inner, "1", 1);
		if (!talks) {
			int nothing = open("/dev/null", O_RDONLY);
			if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(err, 1) < 0) fail("dup2");
		}
		if (dup2(err, 2) < 0) fail("dup2");
		std::vector<char *> args{const_cast<char *>(program.c_str())};
		for (std::string &a : arguments) args.push_back(&a[0]);
		args.push_back(nullptr);
		execv(program.c_str(), args.data());
		fail("exec");
	}
	int status;
	if (waitpid(child, &status, 0) < 0) fail("wait");
	char text[4096];
	ssize_t n = pread(err, text, sizeof text, 0);
	message.assign(text, n > 0 ? n : 0);
	close(err);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// beside is the path of another program in the folder of this one.
std::string beside(const char *name) {
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self);
	if (n <= 0 || n == sizeof self) fail("find the checker");
	std::string path(self, n);
	return path.substr(0, path.rfind('/') + 1) + name;
}

// linger reads on until the submission has ended, up to a few seconds: it may wait for its input's end. A judge that sees
// the submission crash before the checker's rejection takes it for that, as Codeforces does, which asks the checker last.
void linger() {
	const std::time_t most = std::time(nullptr) + 3;
	char buffer[1 << 16];
	pollfd in = {0, POLLIN, 0};
	for (std::time_t now; (now = std::time(nullptr)) < most;) {
		int ready = poll(&in, 1, static_cast<int>(most - now) * 1000);
		if (ready <= 0 || read(0, buffer, sizeof buffer) <= 0) return;
	}
}

__attribute__((constructor)) void validate(int argc, char **argv, char **) {
	if (std::getenv(inner)) {
		unsetenv(inner);
		return; // the program's turn
	}
	if (argc < 4) {
		std::fputs("want: input answer feedback_dir/ [mode [how]] < output\n", stderr);
		_exit(failed);
	}
	std::string input = argv[1], answer = argv[2], feedback = argv[3];
	std::string mode = argc > 4 ? argv[4] : "whole", how = argc > 5 ? argv[5] : "";
	bool plain = how == "plain", talks = plain || how == "interactor", checks = talks && argc > 6 && !std::strcmp(argv[6], "checker");
	char output[] = "/tmp/outputXXXXXX"; // of the submission, or the interactor's log
	int out = mkstemp(output);
	if (out < 0) fail("make a file");
	if (!talks) copy(0, out);
	close(out);
	std::string message, said, who = talks ? "interactor" : "checker"; // who has the word
	int code = call("/proc/self/exe", talks, plain ? std::vector<std::string>{input, answer} : std::vector<std::string>{input, output, answer}, message);
	if (plain && code > 1) code = -1;
	if (checks && code == 0 && !nameless(code, message)) {
		said = message;
		if (!said.empty() && said.back() != '\n') said += '\n';
		who = "checker";
		code = call(beside("checker"), false, {input, output, answer}, message);
	}
	unlink(output);
	put(feedback + "judgemessage.txt", said + message);
	int verdict = translate(code, message, feedback, mode);
	if (verdict == failed) {
		const char *hint = nameless(code, message) ? ", which is no code for a part: define TESTSYS before testlib.h is included, or use quitp" : "";
		std::fprintf(stderr, "the %s exited with %d%s: %s\n", who.c_str(), code, hint, message.c_str());
	}
	if (verdict == wrong && checks && who == "checker") linger();
	_exit(verdict);
}

} // namespace
