line = fgetl(stdin);
printf("%s %d\n", line, columns(unicode2native(line, "UTF-32LE")) / 4);
