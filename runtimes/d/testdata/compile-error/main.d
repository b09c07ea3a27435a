void main() { undeclared(); }
