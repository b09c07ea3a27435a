EVALFILE "lib/sum.raku";

my $total = "data/in.txt".IO.lines.sum;
spurt "out.txt", "$total\n";
say $total;
