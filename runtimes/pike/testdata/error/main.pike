int main() {
  write("before\n");
  error("on purpose");
}
