#include <stdio.h>
#include "data/sum.h"

int main(void) {
	int a, b;
	FILE *in = fopen("data/in.txt", "r"), *out = fopen("result.txt", "w");
	if (!in || !out || fscanf(in, "%d %d", &a, &b) != 2)
		return 1;
	fprintf(out, "%d\n", sum(a, b));
	puts("done");
}
