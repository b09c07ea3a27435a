use strict;
use warnings;
use open qw(:std :encoding(UTF-8));

chomp(my $line = <STDIN>);
print "$line ", length $line, "\n";
