plot ([1 4 9 16]); title ("Größe α");
figure; pie ([1 2 3]); close
figure; surf (peaks (20));
cd /tmp
printf ("drawn\n");
exit (3)
