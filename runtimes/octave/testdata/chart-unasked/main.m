1;
function close_it ()
  close
end
fid = fopen ("chart-2.png", "w"); fputs (fid, "mine"); fclose (fid);
plot ([1 4 9 16]); title ("Größe α");
figure; pie ([1 2 3]); close
figure; pie ([1 2 3]); close_it ();
figure; surf (peaks (20));
figure; bar ([1 2 3]);
cd /tmp
printf ("drawn\n");
exit (3)
