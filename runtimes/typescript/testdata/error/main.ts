interface Reason {
  text: string;
}

const reason: Reason = { text: "on purpose" };
console.log("before");
throw new Error(reason.text);
