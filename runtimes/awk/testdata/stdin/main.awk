# Arguments would be files to read: they are taken out.
BEGIN {
	for (i = 1; i < ARGC; i++)
		arguments = arguments " " ARGV[i]
	ARGC = 1
}
{ sum += $1 }
END { print sum arguments }
