using System;
using System.Linq;

class Program {
    static void Main(string[] args) {
        var sum = Console.In.ReadToEnd().Split(new[] { '\n' }, StringSplitOptions.RemoveEmptyEntries).Sum(int.Parse);
        Console.WriteLine(string.Join(" ", new[] { sum.ToString() }.Concat(args)));
    }
}
