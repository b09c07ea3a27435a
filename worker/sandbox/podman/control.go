package podman

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// maxControlAnswer is more than a sandbox ever answers, bytes.
const maxControlAnswer = 64 << 10

// errNoAnswer is how a sandbox says nothing: nobody knows what it does.
var errNoAnswer = errors.New("the sandbox doesn't answer")

// controlConn is the sandbox's control socket, as a connection that the caller closes. The sandbox has to have one.
func (w *instance) controlConn() (net.Conn, error) {
	control, err := net.FileConn(w.control)
	if err != nil {
		return nil, fmt.Errorf("use the sandbox's control socket: %w", err)
	}
	return control, nil
}

// sendWith sends a sandbox a call, with files.
func sendWith(control net.Conn, message string, files ...*os.File) error {
	socket, ok := control.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("the sandbox's control socket is a %s", control.LocalAddr().Network())
	}
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	if _, _, err := socket.WriteMsgUnix([]byte(message), unix.UnixRights(fds...), nil); err != nil {
		return fmt.Errorf("call the sandbox: %w", err)
	}
	return nil
}

// awaitAnswer waits for a sandbox's answer to a call.
func awaitAnswer(control net.Conn) error {
	var answer struct {
		Success bool   `json:"success"`
		Err     string `json:"err"`
	}
	if err := json.NewDecoder(io.LimitReader(control, maxControlAnswer)).Decode(&answer); err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	if !answer.Success {
		return fmt.Errorf("the sandbox could not: %s", agentwire.Printable(strings.TrimSpace(answer.Err), 500))
	}
	return nil
}
