#include <fstream>
#include <iostream>

#include "data/sum.h"

int main() {
	std::ifstream in("data/in.txt");
	int a, b;
	in >> a >> b;
	std::ofstream("out.txt") << sum(a, b) << '\n';
	std::cout << sum(a, b) << '\n';
}
