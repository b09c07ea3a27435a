#include <stdio.h>

int main(void) {
	int *n = NULL;
	return scanf("%d", n);
}
