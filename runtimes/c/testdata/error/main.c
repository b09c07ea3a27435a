#include <stdio.h>
#include <stdlib.h>

int main(void) {
	puts("before");
	fflush(stdout);
	fputs("on purpose\n", stderr);
	abort();
}
