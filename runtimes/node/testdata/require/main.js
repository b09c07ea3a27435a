const _ = require("lodash");
const dayjs = require("dayjs");
const { evaluate } = require("mathjs");

console.log(_.chunk([1, 2, 3], 2).length);
console.log(dayjs("2024-02-28").add(1, "day").format("YYYY-MM-DD"));
console.log(evaluate("12 / (2.3 + 0.7)"));
