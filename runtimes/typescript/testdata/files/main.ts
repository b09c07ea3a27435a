import * as fs from "node:fs";
import { sum } from "./lib/sum.ts";

const total: number = sum(fs.readFileSync("data/in.txt", "utf8").trim().split("\n").map(Number));
fs.writeFileSync("out.txt", `${total}\n`);
console.log(total);
