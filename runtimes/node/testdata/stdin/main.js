const lines = require("node:fs").readFileSync(0, "utf8").trim().split("\n");
console.log(lines.reduce((sum, n) => sum + Number(n), 0), ...process.argv.slice(2));
