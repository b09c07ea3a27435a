my $line = get;
say "$line {$line.chars}";
