BEGIN {
	print "before"
	print "on purpose" > "/dev/stderr"
	exit 3
}
