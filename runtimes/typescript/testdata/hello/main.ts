const greeting: string = "hello, wörld";
console.log(greeting);
