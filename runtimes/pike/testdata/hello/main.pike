int main() {
  write("hello, wörld\n");
  return 0;
}
