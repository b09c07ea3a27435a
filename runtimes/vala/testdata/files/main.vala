void main() {
    var total = 0;
    var input = FileStream.open("data/in.txt", "r");
    string? line;
    while ((line = input.read_line()) != null)
        total += int.parse(line);
    var output = FileStream.open("out.txt", "w");
    output.printf("%d\n", total);
    stdout.printf("%d\n", total);
}
