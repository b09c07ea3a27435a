package job

import "strings"

// ParsePointer returns the words of a JSON pointer (RFC 6901), and false for what is none.
func ParsePointer(pointer string) (words []string, ok bool) {
	if pointer == "" {
		return nil, true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	words = strings.Split(pointer[1:], "/")
	for i, w := range words {
		plain := strings.NewReplacer("~0", "", "~1", "").Replace(w)
		if strings.Contains(plain, "~") {
			return nil, false
		}
		words[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(w)
	}
	return words, true
}
