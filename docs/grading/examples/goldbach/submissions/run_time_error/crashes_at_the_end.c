// What was printed before a crash does not count.
#include <stdio.h>
#include <stdlib.h>

int main(void) {
	int n;
	scanf("%d", &n);
	if (n == 4)
		puts("2 2");
	else
		puts("3 97");
	fflush(stdout);
	abort();
}
