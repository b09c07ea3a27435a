import { readFileSync } from "node:fs";

const numbers: number[] = readFileSync(0, "utf8").trim().split("\n").map(Number);
console.log(numbers.reduce((sum, n) => sum + n, 0), ...process.argv.slice(2));
