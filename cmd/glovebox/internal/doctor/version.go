package doctor

import (
	"strconv"
	"strings"
)

// Older reports whether version is before floor, comparing the numbers that both begin
// with: "6.18.44-fc" is not older than "5.13".
func Older(version, floor string) bool {
	v, f := numbers(version), numbers(floor)
	for i := range f {
		if i >= len(v) {
			return true
		}
		if v[i] != f[i] {
			return v[i] < f[i]
		}
	}
	return false
}

func numbers(version string) []int {
	var all []int
	for part := range strings.SplitSeq(version, ".") {
		digits := part
		if end := strings.IndexFunc(part, func(c rune) bool { return c < '0' || c > '9' }); end >= 0 {
			digits = part[:end]
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			return all
		}
		all = append(all, n)
		if digits != part {
			return all
		}
	}
	return all
}
