object Main extends App {
  println("hello, wörld")
}
