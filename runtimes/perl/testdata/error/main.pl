print "before\n";
die "on purpose";
