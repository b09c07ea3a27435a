using System;

class Program {
    static void Main() {
        var line = Console.ReadLine();
        Console.WriteLine(line + " " + line.Length);
    }
}
