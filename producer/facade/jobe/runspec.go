package jobe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// runSpec is a run as a client asks for it, checked. Fields that are not here are ignored.
type runSpec struct {
	language  language
	source    string
	file      string // the source's name
	mainClass string // of Java
	input     string
	files     []fileSpec

	cpuSeconds float64
	memoryMB   float64 // 0: no limit; less: the language's own
	processes  float64 // 0 or less: as many as there may be
	diskMB     float64 // of one file; less than 0: no limit
	streamMB   float64 // of each stream

	compileArgs, linkArgs, interpreterArgs, runArgs *[]string // nil: the language's own
}

// fileSpec is a file of the client's.
type fileSpec struct{ id, name string }

// maxEntries is how many entries all objects and arrays of a body may have together: those of its files and arguments.
const maxEntries = 4096

// maxCPUSeconds is the most CPU time that Jobe lets a run ask for.
const maxCPUSeconds = 120

// readRunSpec decodes the body of a run, for the languages offered. It fails with a facade.BadRequest. What is wrong is looked
// for in Jobe's order.
func readRunSpec(body []byte, offered []offer) (runSpec, error) {
	var s runSpec
	if err := facade.CheckEntries(body, maxEntries); err != nil {
		return s, err
	}
	var sent map[string]json.RawMessage
	if facade.CheckText(body) != nil || json.Unmarshal(body, &sent) != nil || sent == nil {
		return s, facade.BadRequest("Non-JSON post data received")
	}
	var spec map[string]json.RawMessage
	if json.Unmarshal(sent["run_spec"], &spec) != nil || spec == nil {
		return s, facade.BadRequest("No run_spec attribute found in post data")
	}
	var ok bool
	if s.source, ok = facade.Text(spec["sourcecode"]); !ok {
		return s, missing("sourcecode")
	}
	id, ok := facade.Text(spec["language_id"])
	if !ok {
		return s, missing("language_id")
	}
	if s.language, ok = find(offered, id); !ok {
		return s, facade.BadRequest(fmt.Sprintf("Language '%s' is not known", job.Clip(strings.ToLower(id), 100)))
	}
	parameters := map[string]json.RawMessage{}
	_ = json.Unmarshal(spec["parameters"], &parameters) // PHP writes an empty map as [], and what is no map has none
	s.readParameters(parameters)
	if s.cpuSeconds > maxCPUSeconds {
		return s, facade.BadRequest(fmt.Sprintf("cputime exceeds maximum allowed on this Jobe server (%d secs)", maxCPUSeconds))
	}
	if err := s.nameSource(spec["sourcefilename"], parameters["main_class"]); err != nil {
		return s, err
	}
	s.input, _ = word(spec["input"])
	err := s.readFiles(spec["file_list"])
	return s, err
}

func missing(attribute string) error {
	return facade.BadRequest("run_spec is missing the required attribute '" + attribute + "'")
}

func (s *runSpec) readParameters(p map[string]json.RawMessage) {
	s.cpuSeconds = positive(number(p["cputime"], 0), 5)
	s.memoryMB = number(p["memorylimit"], -1)
	s.processes = number(p["numprocs"], 30)
	s.diskMB = number(p["disklimit"], 20)
	s.streamMB = positive(number(p["streamsize"], 0), 2)
	s.compileArgs, s.linkArgs = list(p["compileargs"]), list(p["linkargs"])
	s.interpreterArgs, s.runArgs = list(p["interpreterargs"]), list(p["runargs"])
}

// forbidden are characters that no source's name may have.
const forbidden = "<>:\"/\\|?*#[]@!$&'()+,;={}^~`"

// nameSource decides what the source is called.
func (s *runSpec) nameSource(name, class json.RawMessage) error {
	s.file, _ = facade.Text(name)
	if s.file == "prog.java" { // it counts as absent
		s.file = ""
	}
	if strings.ContainsAny(s.file, forbidden) || strings.ContainsFunc(s.file, func(r rune) bool { return r < ' ' || r == 0x7f }) ||
		strings.HasPrefix(s.file, ".") || strings.HasPrefix(s.file, "-") || s.file != "" && job.CheckName(s.file) != "" {
		return facade.BadRequest("The sourcefilename for the run_spec is illegal")
	}
	if s.file == "" && s.language.id == "java" {
		if main := mainClass(s.source); main != "" {
			s.file = main + ".java"
		}
	}
	s.file = cmp.Or(s.file, s.language.file)
	s.mainClass, _, _ = strings.Cut(s.file, ".")
	if given, ok := facade.Text(class); ok && given != "" {
		s.mainClass = strings.ReplaceAll(given, "'", "") // it is put into quotes
	}
	return nil
}

// readFiles reads pairs of id and name.
func (s *runSpec) readFiles(sent json.RawMessage) error {
	specs, ok := entries(sent)
	if !ok {
		return facade.BadRequest("Invalid file specifier: " + job.Clip(string(sent), 200))
	}
	if len(specs) > job.MaxFiles {
		return facade.BadRequest(fmt.Sprintf("Invalid file specifier: there are %d; allowed: %d", len(specs), job.MaxFiles))
	}
	for _, one := range specs {
		var pair []json.RawMessage
		if json.Unmarshal(one, &pair) != nil || len(pair) < 2 {
			return facade.BadRequest("Invalid file specifier: " + job.Clip(string(one), 200))
		}
		id, isID := facade.Text(pair[0])
		name, isName := facade.Text(pair[1])
		if !isID || !isName || !fileID.MatchString(id) || !fileName.MatchString(name) || job.CheckName(name) != "" {
			return facade.BadRequest("Invalid file specifier: " + job.Clip(string(one), 200))
		}
		s.files = append(s.files, fileSpec{id, name})
	}
	return nil
}

// number is a number, be it in a string, or what stands for anything else.
func number(v json.RawMessage, otherwise float64) float64 {
	n, err := strconv.ParseFloat(string(bytes.Trim(v, `" `)), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return otherwise
	}
	return n
}

// positive is n, or what stands for what is not.
func positive(n, otherwise float64) float64 {
	if n > 0 {
		return n
	}
	return otherwise
}

// list is a list of words, or nil for anything else.
func list(v json.RawMessage) *[]string {
	var items []json.RawMessage
	if json.Unmarshal(v, &items) != nil || items == nil {
		return nil
	}
	words := make([]string, len(items))
	for i, item := range items {
		var ok bool
		if words[i], ok = word(item); !ok {
			return nil
		}
	}
	return &words
}

// word is a text, or what PHP makes one of: a number as it is written, 1 for true, and nothing for false and null.
func word(v json.RawMessage) (string, bool) {
	switch string(v) {
	case "true":
		return "1", true
	case "false", "null":
		return "", true
	}
	return facade.Scalar(v)
}

// entries are those of a list or of an object, as which PHP writes a list with gaps; of nothing, none. ok is false for what is neither.
func entries(v json.RawMessage) (list []json.RawMessage, ok bool) {
	if len(v) == 0 || string(v) == "null" || json.Unmarshal(v, &list) == nil {
		return list, true
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(v, &object) != nil {
		return nil, false
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		list = append(list, object[key])
	}
	return list, true
}
