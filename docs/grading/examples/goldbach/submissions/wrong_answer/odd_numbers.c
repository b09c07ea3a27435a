// Odd numbers are not all prime.
#include <stdio.h>

int main(void) {
	int n;
	scanf("%d", &n);
	printf("%d %d\n", n / 2 - (n / 2 % 2 == 0), n - n / 2 + (n / 2 % 2 == 0));
	return 0;
}
