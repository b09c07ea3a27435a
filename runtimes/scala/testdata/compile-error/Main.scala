object Main extends App {
  undeclared()
}
