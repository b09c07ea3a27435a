// Called as: validate input answer feedback_dir/ < output. Whatever comes on standard input was printed by a stranger's
// program, so each number is read in a bounded way and looked at before it is used. Exits with 42 for right, 43 for wrong.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char *feedback;

// say writes a file of the feedback: teammessage.txt for who submitted, judgemessage.txt for who made the problem.
static void say(const char *name, const char *format, ...) {
	char path[4096];
	snprintf(path, sizeof path, "%s%s", feedback, name);
	FILE *f = fopen(path, "w");
	if (!f)
		exit(1); // neither 42 nor 43: the judge's own failure
	va_list args;
	va_start(args, format);
	vfprintf(f, format, args);
	va_end(args);
	fclose(f);
}

static void reject(const char *why) {
	say("teammessage.txt", "%s", why);
	exit(43);
}

static int prime(long n) {
	for (long i = 2; i * i <= n; i++)
		if (n % i == 0)
			return 0;
	return n > 1;
}

int main(int argc, char **argv) {
	if (argc < 4)
		return 1;
	feedback = argv[3];
	FILE *input = fopen(argv[1], "r");
	long n, a, b;
	if (!input || fscanf(input, "%ld", &n) != 1)
		return 1;
	char rest;
	if (scanf("%9ld %9ld", &a, &b) != 2 || scanf(" %c", &rest) == 1)
		reject("Print two numbers, and nothing else.");
	say("judgemessage.txt", "%ld = %ld + %ld", n, a, b);
	if (a < 2 || b < 2 || a + b != n)
		reject("The two numbers don't add up to the one that was given.");
	if (!prime(a) || !prime(b))
		reject("One of the two is no prime.");
	return 42;
}
