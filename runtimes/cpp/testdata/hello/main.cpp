#include <iostream>

int main() { std::cout << "hello, wörld\n"; }
