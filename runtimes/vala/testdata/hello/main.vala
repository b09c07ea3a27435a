void main() {
    stdout.printf("hello, wörld\n");
}
