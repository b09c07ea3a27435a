{ print $0, length($0) }
