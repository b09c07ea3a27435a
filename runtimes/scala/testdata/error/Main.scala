object Main extends App {
  println("before")
  sys.error("on purpose")
}
