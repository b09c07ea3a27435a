#include <stdio.h>

static int prime(int n) {
	for (int i = 2; i * i <= n; i++)
		if (n % i == 0)
			return 0;
	return n > 1;
}

int main(void) {
	int n;
	scanf("%d", &n);
	for (int a = 2;; a++)
		if (prime(a) && prime(n - a)) {
			printf("%d %d\n", a, n - a);
			return 0;
		}
}
