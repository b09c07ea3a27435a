// Package agentwire is the framed protocol between a worker and the agent that is
// PID 1 of a sandbox. Both ends are here. It links job and the standard library.
//
// The stream is the sandbox's stdin and stdout, pipes of the worker's: no file, socket or
// directory of the host is shared with a job. Both ends treat what arrives as
// hostile: the worker because a job may have taken the agent over, the agent
// because the check is cheap.
//
// # Frames
//
// A frame is one byte of type, four bytes of length (big endian) and that many
// bytes of payload, at most [MaxPayload]. Structured payloads are JSON; bulk ones
// are raw bytes. [Reader] refuses unknown types and lengths beyond what the type
// allows before it reads a payload; [FromHost] and [FromAgent] refuse frames that
// come out of order or more often than they may.
//
// # A session
//
//	worker                                   agent
//	                                      ◀─ Ready {protocol, kernel}
//	[Resume]                               ─▶
//	                                      ◀─ [Ready, again]
//	[Prepare]                              ─▶
//	                                      ◀─ [Prepared, any time before Started]
//	Start… (JSON, in as many frames as     ─▶
//	  it needs)
//	(FileBegin FileData…)… StdinData… Go   ─▶
//	                                      ◀─ [CompileOutput… Compiled]
//	                                      ◀─ Started {preloaded}
//	                                      ◀─ (Stdout | Stderr)…
//	Credit… [Kill]                         ─▶
//	                                      ◀─ Exit {cause, code, usage}
//	                                      ◀─ (ArtifactBegin ArtifactData… ArtifactEnd | Skipped)…
//	                                      ◀─ End
//	(closes the stream)                    ─▶
//
// Resume comes first in a sandbox that goes on from a snapshot. Its agent was waiting for Start when
// the snapshot was made, and what it had said went to another worker's end: it says Ready again, and
// Prepared if a process is prepared.
//
// A program that is interactive may be sent more of its stdin from Started on, as StdinData, the end of it as StdinEnd, and
// Signal, which each of its processes gets. What comes when it has ended is of no effect.
//
// Prepare makes the agent start a process before its program is known. Start says whether
// the process may become the program, or its compile step if Prepare says so. If it may not,
// isn't ready or refuses, that is started as usual; Started, or Compiled, says which it was.
//
// Refused stands for everything from CompileOutput to Skipped if a job's inputs don't fit its own
// limits: nothing of it is compiled or run, and nothing is collected.
//
// A compile step that failed is followed by End. Fault may come at any time instead
// of the rest: the agent, not the job, has failed. A stream that stops before End or
// Fault proves nothing about the job: it is an infrastructure error.
//
// # Tests
//
// A start for tests has neither stdin nor artifacts. In the place of everything from Started on, there
// is for each test
//
//	                                      ◀─ Cleared
//	Test {args} StdinData… Go              ─▶
//	                                      ◀─ Started, (Stdout | Stderr)…, Exit
//
// and in the end
//
//	                                      ◀─ Cleared
//	Done                                   ─▶
//	                                      ◀─ End
//
// Cleared says that nothing is left of the run before; the agent makes ready for the next one while that is on its way. The worker sends a test
// when it has read that, so that nothing of a later test is in the sandbox while an earlier one is run. Each run has the files that Start brought and
// those that the compile step made, and nothing of the runs before it. Of stderr, the agent sends
// [MaxTestStderr] bytes of each run, or as many as Start says, and drops the rest. Where the start is interactive, too, each run may be sent more of its
// stdin, its end and signals as above; what comes behind its Exit and before the next Test is of no effect. Refused can come instead of
// the first Cleared, and End instead of a later one: then the sandbox can't be cleared.
//
// # Turns
//
// A start for a session names an interpreter, and has neither a compile step nor stdin. In the place of everything
// from Started on, there is for each turn
//
//	Turn {wall_ms, context, generation}    ─▶
//	(FileBegin FileData…)… StdinData… Go   ─▶ files, and the code
//	                                      ◀─ Started, (Stdout | Stderr)…
//	[Kill] [Restart]                       ─▶ interrupts it, or ends its interpreter
//	                                      ◀─ Exit {cause, code, usage, lost}
//	                                      ◀─ (ArtifactBegin ArtifactData… ArtifactEnd | Skipped)…
//	                                      ◀─ Turned
//
// and in the end
//
//	Done                                   ─▶
//	                                      ◀─ End
//
// From Exit to the next Turn every process of the sandbox is stopped: what a turn leaves running goes on with the next
// one. A Kill or Restart that comes between two turns is of no effect. The files that a turn sends are those that have
// changed since the turn before. Refused can come instead of the first Started.
//
// A session has an interpreter for each of its contexts. A turn names its own context, the generation of the interpreter that is to execute it, and
// the other contexts. The agent ends each interpreter that is not one of these, and starts the turn's own if it has none. Exit says whether
// that was lost, and which others were.
//
// Between two turns the worker may send Pause, which the agent answers with Ready. So the worker knows that the agent has
// read all that was sent before, which is when a session can be paused. Resume follows, which is answered likewise: to the agent's
// new end once the session goes on, or to the same one if it could not be paused. In between, the agent holds no CPU time against the
// session, as gVisor counts some of its own work for the processes that it writes and reads.
//
// # Flow control
//
// The program's output shares the stream with the agent's own messages, so a worker
// that stops reading would not learn of exits and faults. The worker therefore always reads,
// and its memory is bounded by credit: the agent sends bulk bytes (see [Type.Bulk])
// only against a grant (credit frames, counted by [Credit]), and waits when it has none.
// A frame costs its payload and [FrameCost]. The worker
// grants again what it has passed on. The other frames are bounded by their number.
package agentwire
