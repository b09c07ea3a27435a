package docstest

import "strings"

// Commands returns the arguments that each call of a program has in a line of shell: up to
// the end of the command, or to a comment.
func (c Code) Commands(program string) [][]string {
	var calls [][]string
	words := strings.Fields(c.Text)
	for i, word := range words {
		if !starts(words[:i]) || called(word) != program {
			continue
		}
		call := []string{}
		for _, argument := range words[i+1:] {
			if strings.ContainsAny(argument[:1], "|&;<>#)") {
				break
			}
			end := strings.TrimRight(argument, ";)`,.\"")
			call = append(call, end)
			if strings.ContainsAny(argument[len(end):], ";)") {
				break
			}
		}
		calls = append(calls, call)
	}
	return calls
}

// starts tells whether the word after these is a command's first.
func starts(before []string) bool {
	if len(before) == 0 {
		return true
	}
	last := before[len(before)-1]
	return last == "$" || last == "sudo" || last == "exec" || last == "nice" || strings.ContainsRune(last, '=') || strings.ContainsAny(last[len(last)-1:], ";|&(")
}

// called strips what a shell allows before a program's name.
func called(word string) string {
	if i := strings.LastIndex(word, "$("); i >= 0 {
		word = word[i+2:]
	}
	word = strings.TrimLeft(word, "(")
	word = strings.TrimPrefix(strings.TrimPrefix(word, "./"), "bin/")
	return strings.TrimRight(word, ");,")
}
