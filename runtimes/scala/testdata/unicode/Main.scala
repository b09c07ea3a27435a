object Main extends App {
  val line = scala.io.StdIn.readLine()
  println(line + " " + line.codePointCount(0, line.length))
}
