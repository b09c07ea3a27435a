package judge0

import "testing"

// BenchmarkKeep is what it costs to keep a small submission, and to read it again.
func BenchmarkKeep(b *testing.B) {
	s := &submission{LanguageID: 71, Texts: Texts{SourceCode: []byte("print(6 * 7)\n")}, CPUTime: 5, ExtraTime: 1, WallTime: 10, Memory: 262144, Stack: 64000, Processes: 60, FileSize: 1024, NumberOfRuns: 1}
	b.ReportAllocs()
	for b.Loop() {
		metadata := map[string]string{languageKey: "71"}
		if fits, err := s.inline(metadata); !fits || err != nil {
			b.Fatal(fits, err)
		}
		if _, err := kept(metadata); err != nil {
			b.Fatal(err)
		}
	}
}
