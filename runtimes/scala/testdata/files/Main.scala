object Main extends App {
  val total = scala.io.Source.fromFile("data/in.txt").getLines().map(_.toInt).sum
  val out = new java.io.PrintWriter("out.txt")
  out.println(total)
  out.close()
  println(total)
}
