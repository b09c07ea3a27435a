object Main {
  def main(args: Array[String]): Unit = {
    val sum = scala.io.Source.stdin.getLines().map(_.toInt).sum
    println((sum.toString +: args).mkString(" "))
  }
}
