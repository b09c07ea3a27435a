void main() {
    print("before\n");
    stderr.printf("on purpose\n");
    Process.exit(3);
}
