#include <codecvt>
#include <iostream>
#include <locale>
#include <string>

int main() {
	std::string line;
	std::getline(std::cin, line);
	int characters = 0;
	for (unsigned char c : line)
		characters += (c & 0xC0) != 0x80;
	std::cout << line << ' ' << characters << '\n';
}
