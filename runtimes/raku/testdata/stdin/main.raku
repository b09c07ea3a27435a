put [+]($*IN.lines), " ", @*ARGS.join(" ");
