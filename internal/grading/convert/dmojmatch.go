package convert

import (
	"archive/zip"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"

	"github.com/glovebox-run/glovebox/internal/patterns"
	"github.com/glovebox-run/glovebox/job"
)

// dmojPattern finds inputs or answers in an archive by their names.
type dmojPattern struct {
	begins *regexp.Regexp // what has to match, too; nil for nothing
	name   *regexp.Regexp // with a group "case", and perhaps one "batch"
}

// The patterns of files where init.yml has none: a name that has .in, or begins with in, and a number at its end, or two.
var (
	dmojInputs  = dmojPattern{regexp.MustCompile(`(?i)^(?:.*?\.in|in)`), dmojNumbers}
	dmojOutputs = dmojPattern{regexp.MustCompile(`(?i)^(?:.*?\.out|out)`), dmojNumbers}
	dmojNumbers = regexp.MustCompile(`(?i)^.*?(?:(?:^|\W)(?P<batch>\d+)[^\d\s]+)?(?P<case>\d+)[^\d\s]*$`)
)

// dmojID is the number of a batch or a case, or a word. Words come first.
type dmojID struct {
	number int
	word   string // "" for a number
}

func compareIDs(a, b dmojID) int {
	if (a.word == "") != (b.word == "") {
		return cmp.Compare(b.word, a.word) // the empty one last
	}
	return cmp.Or(cmp.Compare(a.word, b.word), cmp.Compare(a.number, b.number))
}

// matched finds the cases of an archive by the names of its files. n is test_cases, or nil.
func (d *dmoj) matched(n *yaml.Node, s dmojSettings) ([]dmojEntry, error) {
	archive, ok := d.archive.(*zip.Reader)
	if !ok {
		return nil, faultf(dmojFile, "test_cases", "want a list of cases, or an archive whose files are found by their names")
	}
	inputs, outputs, points := dmojInputs, dmojOutputs, []float64(nil)
	if n != nil {
		m, err := dmojMap(n, "test_cases")
		if err != nil {
			return nil, err
		}
		for name, node := range m {
			key := joined("test_cases", name)
			switch name {
			case "input_format":
				inputs, err = readDMOJPattern(node, key)
			case "output_format":
				outputs, err = readDMOJPattern(node, key)
			case "case_points":
				err = dmojValue(node, key, "a list of numbers", &points)
			default:
				err = faultf(dmojFile, key, "is not known: want input_format, output_format or case_points")
			}
			if err != nil {
				return nil, err
			}
		}
	}
	found, batches := map[dmojID]map[dmojID]*[2]string{}, map[dmojID]bool{}
	for _, f := range archive.File {
		for side, pattern := range []dmojPattern{inputs, outputs} {
			batch, number, isBatch, ok := pattern.match(f.Name)
			if !ok {
				continue
			}
			if isBatch {
				batches[batch] = true
			} else {
				batch = number
			}
			if found[batch] == nil {
				found[batch] = map[dmojID]*[2]string{}
			}
			if found[batch][number] == nil {
				found[batch][number] = &[2]string{}
			}
			if other := found[batch][number][side]; other != "" && other != f.Name {
				return nil, faultf(dmojFile, "test_cases", "%s and %s in the archive would both be the same test: write test_cases down as a list", clip(other), clip(f.Name))
			}
			found[batch][number][side] = f.Name
		}
	}
	return d.matchedEntries(found, batches, points, s)
}

func (d *dmoj) matchedEntries(found map[dmojID]map[dmojID]*[2]string, batches map[dmojID]bool, points []float64, s dmojSettings) ([]dmojEntry, error) {
	ids := sortedIDs(found)
	if len(ids) > job.MaxTests {
		return nil, faultf(dmojFile, "test_cases", "%d are found in the archive; up to %d are graded", len(ids), job.MaxTests)
	}
	var entries []dmojEntry
	for i, id := range ids {
		e := dmojEntry{key: fmt.Sprintf("test_cases (%s)", id), points: s.points}
		if points != nil {
			if i >= len(points) || !(points[i] >= 0 && points[i] <= job.MaxPoints) {
				return nil, faultf(dmojFile, "test_cases.case_points", "want %d numbers from 0 to %g, for the cases that are in the archive (got %d)", len(ids), float64(job.MaxPoints), len(points))
			}
			e.points = points[i]
		}
		switch {
		case batches[id]:
			e.batch = 1 // its number comes later
		case len(found[id]) > 1:
			return nil, faultf(dmojFile, "test_cases", "several cases in the archive have the number %s", id)
		}
		for _, number := range sortedIDs(found[id]) {
			pair := found[id][number]
			if pair[0] == "" || pair[1] == "" {
				return nil, faultf(dmojFile, "test_cases", "%s in the archive has no counterpart: write test_cases down as a list", clip(cmp.Or(pair[0], pair[1])))
			}
			c := dmojCase{key: e.key, checker: s.checker}
			var err error
			if c.in, err = d.find(pair[0], e.key, s.binary); err != nil {
				return nil, err
			}
			if c.out, err = d.find(pair[1], e.key, s.binary); err != nil {
				return nil, err
			}
			e.cases = append(e.cases, c)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func sortedIDs[V any](m map[dmojID]V) []dmojID {
	var ids []dmojID
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, compareIDs)
	return ids
}

func (id dmojID) String() string {
	if id.word != "" {
		return clip(id.word)
	}
	return strconv.Itoa(id.number)
}

// readDMOJPattern reads a pattern. Python's own syntax has more than can be matched in bounded time.
func readDMOJPattern(n *yaml.Node, key string) (dmojPattern, error) {
	var text string
	if err := dmojValue(n, key, "a regular expression", &text); err != nil {
		return dmojPattern{}, err
	}
	const most = 1000
	if len(text) > most {
		return dmojPattern{}, faultf(dmojFile, key, "is longer than %d bytes", most)
	}
	re, _, err := patterns.Compile(`(?i)^(?:`+text+`)`, 64<<10)
	if err != nil || re.SubexpIndex("case") < 0 {
		return dmojPattern{}, faultf(dmojFile, key, "can't be read as a regular expression of RE2 with a group (?P<case>…): write test_cases down as a list (got %s)", clip(text))
	}
	return dmojPattern{name: re}, nil
}

// match takes a name apart.
func (p dmojPattern) match(name string) (batch, number dmojID, isBatch, ok bool) {
	if p.begins != nil && !p.begins.MatchString(name) {
		return batch, number, false, false
	}
	found := p.name.FindStringSubmatchIndex(name)
	if found == nil {
		return batch, number, false, false
	}
	part := func(group string) (id dmojID, there bool) {
		i := p.name.SubexpIndex(group)
		if i < 0 || found[2*i] < 0 {
			return id, false
		}
		text := name[found[2*i]:found[2*i+1]]
		if n, err := strconv.Atoi(text); err == nil {
			return dmojID{number: n}, true
		}
		return dmojID{word: text}, text != ""
	}
	batch, isBatch = part("batch")
	number, ok = part("case")
	return batch, number, isBatch, ok
}
