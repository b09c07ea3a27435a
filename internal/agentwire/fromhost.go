package agentwire

import (
	"github.com/glovebox-run/glovebox/job"
)

// FromHost checks the order, the totals and the contents of what a worker sends. The
// agent passes each frame to [FromHost.Accept] and acts on it only when that is nil.
type FromHost struct {
	// Prepare has a command once it has come.
	Prepare Prepare
	// Start is complete with the first frame that isn't part of it.
	Start Start
	// File is the input being received.
	File FileBegin
	// Test is the one being received, or run.
	Test Test
	// Turn is the one being received, or executed.
	Turn Turn

	state    hostState
	input    int64 // of an interactive program since Go, as job.MaxInputTotal counts it; of one that is run on tests in this one, as job.MaxDialogBytes does
	tested   bool  // a test has come
	code     int64 // bytes of the turn's, so far
	resumed  bool
	start    []byte
	fileLeft int64
	files    int
	bytes    int64
	names    map[string]bool
}

type hostState int

const (
	wantStart hostState = iota
	inStart
	betweenFiles
	inFile
	inStdin
	running
	inTest
	inTurn
	paused
	done
)

// Accept checks the next frame.
func (h *FromHost) Accept(f Frame) error {
	if f.Type == TypeCredit {
		if f.Credit() == 0 || f.Credit() > maxGrant {
			return violation("a grant of %d bytes", f.Credit())
		}
		return nil
	}
	if h.state == inStart && f.Type != TypeStart {
		if err := h.finishStart(); err != nil {
			return err
		}
		h.state = betweenFiles
	}
	switch {
	case f.Type == TypePrepare && h.state == wantStart && len(h.Prepare.Command) == 0:
		return h.acceptPrepare(f)
	case f.Type == TypeResume && h.state == wantStart && !h.resumed:
		h.resumed = true
	case f.Type == TypePause && h.state == running && h.Start.Session:
		h.state = paused
	case f.Type == TypeResume && h.state == paused:
		h.state = running
	case f.Type == TypeStart && (h.state == wantStart || h.state == inStart):
		if len(h.start)+len(f.Payload) > MaxStart {
			return violation("start is longer than %d bytes", MaxStart)
		}
		h.start = append(h.start, f.Payload...)
		h.state = inStart
	case f.Type == TypeFileBegin && (h.state == betweenFiles || h.state == inTurn && h.code == 0):
		return h.beginFile(f)
	case f.Type == TypeFileData && h.state == inFile:
		h.fileLeft -= int64(len(f.Payload))
		if h.fileLeft < 0 {
			return violation("input file is longer than announced")
		}
		h.fileDone()
	case f.Type == TypeStdinData && (h.state == betweenFiles || h.state == inStdin) && !h.Start.Tests && !h.Start.Session:
		h.state = inStdin
		return h.count(int64(len(f.Payload)))
	case f.Type == TypeGo && (h.state == betweenFiles || h.state == inStdin):
		h.state = running
	case f.Type == TypeTest && h.state == running && h.Start.Tests:
		h.Test, h.bytes, h.input, h.tested, h.state = Test{}, 0, 0, true, inTest
		return f.Decode(&h.Test)
	case f.Type == TypeStdinData && h.state == inTest:
		return h.count(int64(len(f.Payload)))
	case f.Type == TypeGo && h.state == inTest:
		h.state = running
	case f.Type == TypeTurn && h.state == running && h.Start.Session:
		return h.beginTurn(f)
	case f.Type == TypeStdinData && h.state == inTurn:
		return h.addCode(int64(len(f.Payload)))
	case f.Type == TypeGo && h.state == inTurn:
		h.state = running
	case f.Type == TypeDone && h.state == running && (h.Start.Tests || h.Start.Session):
		h.state = done
	case (f.Type == TypeStdinData || f.Type == TypeStdinEnd || f.Type == TypeSignal) && h.state == running && h.Start.Interactive && h.tested == h.Start.Tests:
		return h.acceptInput(f)
	case f.Type == TypeKill && h.state == running:
	case f.Type == TypeRestart && h.state == running && h.Start.Session:
	default:
		return violation("%s is out of order", f.Type)
	}
	return nil
}

func (h *FromHost) acceptPrepare(f Frame) error {
	if err := f.Decode(&h.Prepare); err != nil {
		return err
	}
	switch {
	case h.Prepare.Protocol != Version:
		return violation("prepare has protocol %d, this is %d", h.Prepare.Protocol, Version)
	case len(h.Prepare.Command) == 0 || h.Prepare.Command[0] == "":
		return violation("prepare has no command")
	}
	return nil
}

func (h *FromHost) finishStart() error {
	if err := (Frame{Type: TypeStart, Payload: h.start}).Decode(&h.Start); err != nil {
		return err
	}
	h.start = nil
	becomes := h.Start.PreparedMB > 0 && len(h.Start.Compile) == 0 // the prepared process becomes the program
	switch l := h.Start.Limits; {
	case h.Start.Protocol != Version:
		return violation("start has protocol %d, this is %d", h.Start.Protocol, Version)
	case len(h.Start.Command) == 0 || h.Start.Command[0] == "":
		return violation("start has no command")
	case len(h.Start.Compile) > 0 && h.Start.Compile[0] == "":
		return violation("start has an empty compile command")
	case l.WallMS <= 0 || l.CPUMS <= 0 || l.MemoryMB <= 0 || l.Processes <= 0 || l.OpenFiles <= 0 ||
		l.OutputKB <= 0 || l.FileMB <= 0 || l.DiskMB <= 0 || l.SourceKB <= 0 || l.Artifacts < 0 || l.ArtifactMB < 0 ||
		l.AddressSpaceMB < 0 || l.StackMB < 0:
		return violation("start has a limit that is not set")
	case len(h.Start.Compile) > 0 && (l.CompileWallMS <= 0 || l.CompileMemoryMB <= 0):
		return violation("start has a compile step without limits")
	case l.WallMS > maxMS || l.CPUMS > maxMS || l.MemoryMB > maxMB || l.CompileWallMS > maxMS || l.CompileMemoryMB > maxMB || l.FileMB > maxMB || l.DiskMB > maxMB ||
		l.AddressSpaceMB > maxMB || l.StackMB > maxMB || l.OutputKB > maxMB || l.ArtifactMB > maxMB || l.SourceKB > maxMB || l.Artifacts > 1<<20:
		return violation("start has a limit beyond reason")
	case !h.Start.Session && len(h.Start.Languages) > 0:
		return violation("start has languages, and is for no session")
	case hasEmptyCommand(h.Start.Languages):
		return violation("start has a language without a command")
	case h.Start.Session && (h.Start.Tests || len(h.Start.Compile) > 0):
		return violation("start is for a session, and for tests or a compile step")
	case (h.Start.Session && h.Start.PreparedMB > 0) != (len(h.Start.Become) > 0):
		return violation("start is for a session and a prepared process, and doesn't say what that becomes; or the other way round")
	case h.Start.Interactive && (h.Start.Session || becomes):
		return violation("start is for an interactive program, and for a session or a prepared process")
	case h.Start.StderrKB < 0 || h.Start.StderrKB > maxMB || h.Start.StderrKB > 0 && !h.Start.Tests:
		return violation("start has %d KiB of stderr, and is for no tests, or beyond reason", h.Start.StderrKB)
	case h.Start.NoInternet && !h.Start.Tests:
		return violation("start refuses sockets to tests, and is for none")
	case h.Start.Tests && becomes:
		return violation("start is for tests and a prepared process")
	case h.Start.Forks != nil && (!h.Start.Tests || len(h.Start.Compile) > 0 || h.Start.Forks.MemoryMB <= 0 || h.Start.Forks.MemoryMB > maxMB):
		return violation("start is for a process that makes others, and for no tests, with a compile step, or without its memory")
	case becomes && (h.Start.MergeStderr || l.AddressSpaceMB > 0 || l.StackMB > 0):
		return violation("start is for a prepared process, and for what must be set before a process starts")
	case h.Start.PreparedMB < 0 || h.Start.PreparedMB > maxMB || h.Start.PreparedMB > 0 && len(h.Prepare.Command) == 0:
		return violation("start is for a process that was not prepared")
	case h.Start.PreparedMB > 0 && h.Prepare.Compile != (len(h.Start.Compile) > 0):
		return violation("start is for a process that was prepared for another step")
	}
	return nil
}

func hasEmptyCommand(languages map[string][]string) bool {
	for name, command := range languages {
		if name == "" || len(command) == 0 || command[0] == "" {
			return true
		}
	}
	return false
}

func (h *FromHost) beginTurn(f Frame) error {
	h.Turn, h.bytes, h.code, h.files, h.names, h.state = Turn{}, 0, 0, 0, nil, inTurn
	if err := f.Decode(&h.Turn); err != nil {
		return err
	}
	return h.Turn.check(h.Start.Languages)
}

// acceptInput bounds what an interactive program is sent, and with it what the agent keeps of it.
func (h *FromHost) acceptInput(f Frame) error {
	if f.Type == TypeSignal && (f.Payload[0] == 0 || f.Payload[0] >= 32) {
		return violation("signal %d", f.Payload[0])
	}
	if h.Start.Tests {
		if f.Type == TypeStdinData {
			h.input += int64(len(f.Payload))
		}
		if h.input > job.MaxDialogBytes {
			return violation("a program is sent more than %d bytes in a test", job.MaxDialogBytes)
		}
		return nil
	}
	if h.input += int64(len(f.Payload)) + 1; h.input > job.MaxInputTotal {
		return violation("an interactive program is sent more than %d bytes", job.MaxInputTotal)
	}
	return nil
}

// addCode bounds a turn's code as that of a job.
func (h *FromHost) addCode(n int64) error {
	if most := h.Start.Limits.SourceKB << 10; h.code+n > most {
		return violation("a turn's code has more than %d bytes", most)
	}
	h.code += n
	return nil
}

// Beyond these, a limit multiplied out to bytes or nanoseconds could overflow.
const (
	maxMS = 7 * 24 * 3600 * 1000
	maxMB = 1 << 30
)

func (h *FromHost) beginFile(f Frame) error {
	var b FileBegin
	if err := f.Decode(&b); err != nil {
		return err
	}
	if problem := job.CheckName(b.Name); problem != "" {
		return violation("input file name %s", problem)
	}
	if h.names == nil {
		h.names = map[string]bool{}
	}
	if h.names[b.Name] || b.Size < 0 {
		return violation("input file %q", b.Name)
	}
	if h.files++; h.files > job.MaxFiles+1 { // files[] and the source
		return violation("more than %d input files", job.MaxFiles+1)
	}
	h.names[b.Name] = true
	h.File, h.fileLeft, h.state = b, b.Size, inFile
	if err := h.count(b.Size); err != nil {
		return err
	}
	h.fileDone()
	return nil
}

func (h *FromHost) fileDone() {
	switch {
	case h.fileLeft > 0:
	case h.Turn.WallMS > 0: // the file is a turn's
		h.state = inTurn
	default:
		h.state = betweenFiles
	}
}

// count bounds the inputs together, so that the agent's memory is bounded too.
func (h *FromHost) count(n int64) error {
	const most = 1 << 30
	if n > most || h.bytes+n > most {
		return violation("inputs of more than %d bytes", int64(most))
	}
	h.bytes += n
	return nil
}
