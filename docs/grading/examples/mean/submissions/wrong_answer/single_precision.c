/* Sums up squares in floats: where the mean is large, most of the digits are gone. */
#include <math.h>
#include <stdio.h>

int main(void) {
	int n;
	float x, sum = 0, squares = 0;
	if (scanf("%d", &n) != 1) return 1;
	for (int i = 0; i < n && scanf("%f", &x) == 1; i++) sum += x, squares += x * x;
	printf("%.7f %.7f\n", sum / n, sqrtf(fabsf(squares / n - sum / n * (sum / n))));
}
