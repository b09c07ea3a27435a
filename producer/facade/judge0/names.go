package judge0

import (
	"strconv"

	"github.com/glovebox-run/glovebox/producer/facade"
)

// languageNames are the languages by their ids.
func languageNames() []facade.Language {
	var list []facade.Language
	for _, l := range languages {
		one := facade.Language{Runtime: l.runtime}
		for _, id := range l.ids {
			one.Names = append(one.Names, strconv.Itoa(id))
		}
		list = append(list, one)
	}
	return list
}
