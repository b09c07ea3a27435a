const line = require("node:fs").readFileSync(0, "utf8").trim();
console.log(line, [...line].length);
