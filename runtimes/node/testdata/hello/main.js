console.log("hello, wörld");
