package pipelines

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// Format is how a graph is written.
type Format string

// The formats of a graph.
const (
	Mermaid Format = "mermaid"
	Dot     Format = "dot"
	Text    Format = "text"
)

// Formats lists them.
func Formats() []Format { return []Format{Mermaid, Dot, Text} }

// Graph writes the steps of a pipeline that was checked, and where each stands. Names of steps are all that it takes
// from the definition, and these are plain words.
func Graph(p job.Pipeline, s State, as Format) string {
	var b strings.Builder
	names := slices.Sorted(maps.Keys(p.Steps))
	// "end", say, is a keyword of Mermaid and "node" one of dot, so that each name has a prefix there.
	switch as {
	case Dot:
		b.WriteString("digraph pipeline {\n  rankdir=LR\n  node [shape=box style=filled]\n")
		for _, name := range names {
			fmt.Fprintf(&b, "  s_%s [label=\"%s\\n%s\" fillcolor=\"%s\"]\n", name, name, s.line(p, name), colors[s.Status(p, name)])
		}
		edges(p, names, func(from, to string) { fmt.Fprintf(&b, "  s_%s -> s_%s\n", from, to) })
		b.WriteString("}\n")
	case Mermaid:
		b.WriteString("flowchart LR\n")
		for _, name := range names {
			fmt.Fprintf(&b, "  s_%s[\"%s<br/>%s\"]:::%s\n", name, name, s.line(p, name), s.Status(p, name))
		}
		edges(p, names, func(from, to string) { fmt.Fprintf(&b, "  s_%s --> s_%s\n", from, to) })
		for _, status := range slices.Sorted(maps.Keys(colors)) {
			fmt.Fprintf(&b, "  classDef %s fill:%s,color:#000\n", status, colors[status])
		}
	default:
		for i, level := range Levels(p) {
			for _, name := range level {
				fmt.Fprintf(&b, "%d  %-*s  %s", i+1, widest(names), name, s.line(p, name))
				if needs := p.Steps[name].Needs; len(needs) > 0 {
					b.WriteString("  needs " + strings.Join(needs, ", "))
				}
				if why := s.Steps[name].Verdict.Why; why != "" {
					b.WriteString("  (" + strings.Map(printable, why) + ")")
				}
				b.WriteString("\n")
			}
		}
	}
	return b.String()
}

// colors are those of Okabe and Ito, which a colour-blind reader tells apart.
var colors = map[StepStatus]string{
	Waiting: "#ffffff", Running: "#56b4e9", Succeeded: "#009e73", Failed: "#d55e00", Skipped: "#cccccc", Canceled: "#f0e442",
}

// line says where a step stands, with counts of a fan-out.
func (s State) line(p job.Pipeline, name string) string {
	need := s.Need(p, name)
	if !need.Each || s.Steps[name].Verdict.Word != Begin {
		return string(need.Status)
	}
	return fmt.Sprintf("%s %d/%d", need.Status, need.Succeeded, need.Count)
}

func edges(p job.Pipeline, names []string, edge func(from, to string)) {
	for _, name := range names {
		for _, need := range p.Steps[name].Needs {
			edge(need, name)
		}
	}
}

// Levels are the steps of a pipeline that was checked: first those that need none, then those that need these.
func Levels(p job.Pipeline) [][]string {
	var levels [][]string
	placed := map[string]bool{}
	for len(placed) < len(p.Steps) {
		var level []string
		for name, step := range p.Steps {
			if !placed[name] && !slices.ContainsFunc(step.Needs, func(need string) bool { return !placed[need] }) {
				level = append(level, name)
			}
		}
		if level == nil {
			break // a cycle, which Parse refuses
		}
		slices.Sort(level)
		for _, name := range level {
			placed[name] = true
		}
		levels = append(levels, level)
	}
	return levels
}

func widest(names []string) int {
	n := 0
	for _, name := range names {
		n = max(n, len(name))
	}
	return n
}

// printable keeps what an expression or a value says from writing to a terminal.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}
