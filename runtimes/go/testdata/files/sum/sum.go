package sum

import "strconv"

func Of(words []string) (sum int) {
	for _, word := range words {
		n, _ := strconv.Atoi(word)
		sum += n
	}
	return sum
}
