#include <stdio.h>

int main(int argc, char **argv) {
	int n, sum = 0;
	while (scanf("%d", &n) == 1)
		sum += n;
	printf("%d", sum);
	for (int i = 1; i < argc; i++)
		printf(" %s", argv[i]);
	puts("");
}
