void main(string[] args) {
    int sum = 0;
    string? line;
    while ((line = stdin.read_line()) != null)
        sum += int.parse(line);
    print("%d %s\n", sum, string.joinv(" ", args[1:args.length]));
}
