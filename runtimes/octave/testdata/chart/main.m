plot ([1 4 9 16]);
print -dpng plot.png
printf ("drawn\n");
