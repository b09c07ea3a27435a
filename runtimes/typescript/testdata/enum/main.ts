enum Colour { Red = 1, Green }
namespace Sizes { export const small = 7; }
class Point { constructor(public x: number, private y = 2) {} }
console.log(Colour[Colour.Green], Sizes.small, new Point(3).x);
