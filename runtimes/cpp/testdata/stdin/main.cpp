#include <bits/stdc++.h>

int main(int argc, char **argv) {
	int n, sum = 0;
	while (std::cin >> n)
		sum += n;
	std::cout << sum;
	for (int i = 1; i < argc; i++)
		std::cout << ' ' << argv[i];
	std::cout << '\n';
}
