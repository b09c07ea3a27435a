import std.range, std.stdio, std.string;

void main() {
    auto line = readln.strip;
    writeln(line, " ", line.walkLength);
}
