import std.algorithm, std.array, std.conv, std.stdio, std.string;

void main(string[] args) {
    auto sum = stdin.byLine.map!(line => line.strip.to!int).sum;
    writeln(([sum.to!string] ~ args[1 .. $]).join(" "));
}
