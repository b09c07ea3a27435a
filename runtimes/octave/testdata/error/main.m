printf("before\n");
error("on purpose");
