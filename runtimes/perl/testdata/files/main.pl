use strict;
use warnings;
use JSON::PP;
use lib 'lib';
use Sum;

open my $in, '<', 'data/in.txt' or die $!;
my $sum = Sum::of(<$in>);
open my $out, '>', 'out.txt' or die $!;
print $out encode_json({ sum => $sum });
print "$sum\n";
