use strict;
use warnings;
use List::Util 'sum0';

print join(' ', sum0(<STDIN>), @ARGV), "\n";
