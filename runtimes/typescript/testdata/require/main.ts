const dayjs = require("dayjs");
const lodash = require("lodash");
console.log(dayjs("2026-01-31").format("DD/MM/YYYY"), lodash.chunk([1, 2, 3], 2).length);
