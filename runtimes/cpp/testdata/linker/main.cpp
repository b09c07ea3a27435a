// Options that meet the linker are added to the runtime's own command, as Judge0's users add theirs.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

int main() {
    std::ofstream("/tmp/other.cpp") << R"(
#include <iostream>
#include <stdexcept>
struct Static { Static() { std::cout << "begin "; } ~Static() { std::cout << "end\n"; } } s;
int main() {
    try {
        throw std::runtime_error("main ");
    } catch (const std::exception &e) {
        std::cout << e.what();
    }
}
)";
    for (std::string option : {"", "-fuse-ld=bfd", "-flto", "-static", "-static-pie", "-fsanitize=address"}) {
        std::cout << "[" << option << "] " << std::flush;
        if (std::system(("cd /tmp && g++ -O2 -fuse-ld=gold -fno-canonical-system-headers -o other other.cpp -lm " + option + " && ./other").c_str()) != 0)
            std::cout << "failed\n";
    }
}
