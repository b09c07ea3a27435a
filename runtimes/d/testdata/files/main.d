import std.algorithm, std.array, std.conv, std.file, std.stdio;

void main() {
    auto total = readText("data/in.txt").split.map!(to!int).sum;
    std.file.write("out.txt", total.to!string);
    writeln(total);
}
