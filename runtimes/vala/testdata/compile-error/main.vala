void main() {
    undeclared();
}
