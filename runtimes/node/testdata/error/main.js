console.log("before");
throw new Error("on purpose");
