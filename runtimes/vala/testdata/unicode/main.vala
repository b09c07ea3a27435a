void main() {
    var line = stdin.read_line();
    stdout.printf("%s %d\n", line, line.char_count());
}
