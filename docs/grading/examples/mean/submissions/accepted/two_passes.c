#include <math.h>
#include <stdio.h>

int main(void) {
	static double x[1000];
	int n;
	if (scanf("%d", &n) != 1) return 1;
	double sum = 0, squares = 0;
	for (int i = 0; i < n; i++) {
		if (scanf("%lf", &x[i]) != 1) return 1;
		sum += x[i];
	}
	double mean = sum / n;
	for (int i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
	printf("%.7f %.7f\n", mean, sqrt(squares / n));
}
