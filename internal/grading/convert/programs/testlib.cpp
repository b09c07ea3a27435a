// Calls a checker that was written with testlib.h as an output validator of the Kattis problem package format.
//
// The format calls `validator input answer feedback_dir/ mode < output`, and wants 42 or 43; such a checker is called as
// `checker input output answer`, and says what it found by other codes. Before the checker's own main begins, the
// program starts itself again with those arguments, and translates. Exit code 1 is the judge's fault.
//
// mode is "whole" where an answer is right or wrong, and "part" where a checker may give points.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <fcntl.h>
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

// part is a checker's word that an output is worth a part of the points.
int part(const std::string &feedback, const std::string &mode, const char *file, double value) {
	if (mode != "part" || !(value > 0)) return wrong;
	char text[64];
	std::snprintf(text, sizeof text, "%.9f\n", value);
	put(feedback + file, text);
	return accepted;
}

// translate is what the checker's exit code means, as testlib.h has it.
int translate(int code, const std::string &message, const std::string &feedback, const std::string &mode) {
	double points;
	int share;
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

__attribute__((constructor)) void validate(int argc, char **argv, char **) {
	if (std::getenv(inner)) {
		unsetenv(inner);
		return; // the checker's turn
	}
	if (argc < 4) {
		std::fputs("want: input answer feedback_dir/ [mode] < output\n", stderr);
		_exit(failed);
	}
	std::string feedback = argv[3], mode = argc > 4 ? argv[4] : "whole";
	char output[] = "/tmp/outputXXXXXX", said[] = "/tmp/messageXXXXXX";
	int out = mkstemp(output), err = mkstemp(said);
	if (out < 0 || err < 0) fail("make a file");
	copy(0, out);
	close(out);
	pid_t child = fork();
	if (child < 0) fail("fork");
	if (child == 0) {
		setenv(inner, "1", 1);
		if (dup2(err, 1) < 0 || dup2(err, 2) < 0) fail("dup2");
		char *args[] = {argv[0], argv[1], output, argv[2], nullptr};
		execv("/proc/self/exe", args);
		fail("exec");
	}
	int status;
	if (waitpid(child, &status, 0) < 0) fail("wait");
	char text[4096];
	ssize_t n = pread(err, text, sizeof text, 0);
	std::string message(text, n > 0 ? n : 0);
	unlink(output);
	unlink(said);
	put(feedback + "judgemessage.txt", message);
	if (!WIFEXITED(status)) _exit(failed);
	int code = translate(WEXITSTATUS(status), message, feedback, mode);
	if (code == failed) std::fprintf(stderr, "the checker exited with %d: %s\n", WEXITSTATUS(status), message.c_str());
	_exit(code);
}

} // namespace
