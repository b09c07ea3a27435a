printf("hello, wörld\n");
