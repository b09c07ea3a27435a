import { readFileSync } from "node:fs";

const line: string = readFileSync(0, "utf8").trim();
console.log(line, [...line].length);
