@include "lib/sum.awk"

BEGIN {
	total = sum("data/in.txt")
	print total > "out.txt"
	print total
}
