// Reads [{secret, headers, body}] from stdin; prints for each "accepted" or the error.
const { Webhook } = require("standardwebhooks");

const cases = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
for (const { secret, headers, body } of cases) {
  try {
    new Webhook(secret).verify(body, headers);
    console.log("accepted");
  } catch (e) {
    console.log(`${e.name}: ${e.message}`);
  }
}
