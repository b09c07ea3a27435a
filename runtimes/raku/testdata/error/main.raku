say "before";
die "on purpose";
