// Runs what it is given as JSON, [server, language, code, options], by the client, and prints the answer.
import piston from "piston-client";

const [server, language, code, options] = JSON.parse(process.argv[2]);
console.log(JSON.stringify(await piston({ server }).execute(language, code, options)));
