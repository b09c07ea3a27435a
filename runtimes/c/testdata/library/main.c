#define _GNU_SOURCE
#include <dlfcn.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>

static _Thread_local int mine = 1;
static int sum;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void first(void) { puts("constructor"); }

static void last(void) { puts("atexit"); }

static void *add(void *n) {
	mine += *(int *)n;
	pthread_mutex_lock(&lock);
	sum += mine;
	pthread_mutex_unlock(&lock);
	return NULL;
}

static int descending(const void *a, const void *b) { return *(const int *)b - *(const int *)a; }

int main(int argc, char **argv) {
	(void)argv;
	atexit(last);

	printf("%.6f %.6f %.6f\n", pow(2, argc / 2.0), lgamma(argc + 4.5), fma(argc, 3, 0.5));

	int numbers[] = {3, 1, 2};
	pthread_t threads[3];
	for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, add, &numbers[i]);
	for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
	qsort(numbers, 3, sizeof *numbers, descending);
	printf("%d %d %d\n", sum, mine, numbers[0]);

	const char *name = setlocale(LC_ALL, "");
	printf("%s %s %zu\n", name ? name : "none", nl_langinfo(CODESET), mbstowcs(NULL, "grüß", 0));

	void *library = dlopen("libm.so.6", RTLD_NOW);
	double (*cosine)(double) = library ? (double (*)(double))dlsym(library, "cos") : NULL;
	printf("%.1f\n", cosine ? cosine(0) : -1);

	struct addrinfo *found = NULL, hints = {.ai_flags = AI_NUMERICHOST};
	printf("%d\n", getaddrinfo("127.0.0.1", "80", &hints, &found));
	if (found) freeaddrinfo(found);
}
