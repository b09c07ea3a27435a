using System;
using System.IO;
using System.Linq;

class Program {
    static void Main() {
        var total = File.ReadAllLines("data/in.txt").Sum(int.Parse);
        File.WriteAllText("out.txt", total + "\n");
        Console.WriteLine(total);
    }
}
