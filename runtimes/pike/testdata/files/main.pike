int main() {
  int total = `+(@(array(int)) (Stdio.read_file("data/in.txt") / "\n" - ({ "" })));
  Stdio.write_file("out.txt", total + "\n");
  write("%d\n", total);
  return 0;
}
