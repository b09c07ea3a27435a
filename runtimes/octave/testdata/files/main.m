addpath("lib");
total = sumof(load("data/in.txt"));
save("-text", "out.txt", "total");
disp(total);
