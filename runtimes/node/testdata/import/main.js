import dayjs from "dayjs";
import _ from "lodash";
import { evaluate } from "mathjs";

console.log(_.sum([1, 2]), dayjs("2024-01-01").year(), evaluate("2^10"));
await Promise.resolve();
