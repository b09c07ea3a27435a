// Says "valid" and the version of the specification, or what is wrong with the OpenAPI
// document on standard input.
import { readFileSync } from "node:fs";
import { Validator } from "@seriousme/openapi-schema-validator";

const validator = new Validator();
const result = await validator.validate(JSON.parse(readFileSync(0, "utf8")));
console.log(result.valid ? `valid ${validator.version}` : JSON.stringify(result.errors, null, 1));
