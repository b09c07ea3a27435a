int main(int argc, array(string) argv) {
  int sum = 0;
  while (string line = Stdio.stdin.gets())
    sum += (int) line;
  write("%d %s\n", sum, argv[1..] * " ");
  return 0;
}
