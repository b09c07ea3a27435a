int main() {
  string line = Stdio.stdin.gets();
  write("%s %d\n", line, sizeof(utf8_to_string(line)));
  return 0;
}
