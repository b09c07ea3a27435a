const fs = require("node:fs");
const double = require("./lib/double.js");

const values = JSON.parse(fs.readFileSync("data/in.json", "utf8"));
fs.mkdirSync("out");
fs.writeFileSync("out/result.json", JSON.stringify(values.map(double)));
console.log(values.length);
