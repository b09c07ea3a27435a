package gbtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// Network is a network of the test's own, which takes no root: a bridge in a network namespace, and processes in
// namespaces of theirs, each with a cable to it. What they reach through it is what Open opens, and nothing else.
type Network struct {
	tb     testing.TB
	bridge *Process // keeps the namespace of the bridge
	hosts  int
}

// NetworkHost is a process in a network namespace of its own. It isn't started again: another one has another cable.
type NetworkHost struct {
	*Process
	network *Network
	port    string // of the bridge, where its cable is
}

// bridgeAddr is the bridge's address. It may be anything, as nobody else is in these namespaces.
const bridgeAddr = "10.99.0.1"

// StartNetwork makes one.
func StartNetwork(tb testing.TB) *Network {
	tb.Helper()
	for _, program := range []string{"ip", "unshare", "nsenter", "setpriv"} {
		if _, err := exec.LookPath(program); err != nil {
			tb.Fatalf("%v: run infra/setup-tests.sh", err)
		}
	}
	n := &Network{tb: tb}
	n.bridge = Start(tb, []string{"unshare", "--user", "--map-root-user", "--net", "setpriv", "--pdeathsig", "KILL", "sleep", "infinity"}, nil, nil)
	n.awaitNamespace(n.bridge)
	n.run(n.bridge, "ip", "link", "add", "bridge", "type", "bridge")
	n.run(n.bridge, "ip", "address", "add", bridgeAddr+"/24", "dev", "bridge")
	n.run(n.bridge, "ip", "link", "set", "bridge", "up")
	return n
}

// Start starts a process in a namespace of its own, as the same user. It may find that its network is not there yet.
func (n *Network) Start(argv, env []string) *NetworkHost {
	n.tb.Helper()
	n.hosts++
	h := &NetworkHost{network: n, port: fmt.Sprint("port", n.hosts)}
	h.Process = Start(n.tb, append([]string{
		"nsenter", n.owner(), "--preserve-credentials", "unshare", "--user", "--map-user", strconv.Itoa(os.Getuid()), "--map-group", strconv.Itoa(os.Getgid()), "--net",
		"setpriv", "--pdeathsig", "KILL", // which entering a namespace undoes
	}, argv...), env, nil)
	n.awaitNamespace(h.Process)
	n.run(n.bridge, "ip", "link", "add", h.port, "type", "veth", "peer", "name", "cable", "netns", strconv.Itoa(h.PID()))
	n.run(n.bridge, "ip", "link", "set", h.port, "master", "bridge", "up")
	n.run(h.Process, "ip", "address", "add", fmt.Sprintf("10.99.0.%d/24", n.hosts+1), "dev", "cable")
	n.run(h.Process, "ip", "link", "set", "lo", "up")
	n.run(h.Process, "ip", "link", "set", "cable", "up")
	return h
}

// Cut pulls the cable at the bridge: packets are dropped in both directions, and nobody is told of the end of a connection.
func (h *NetworkHost) Cut() {
	h.network.tb.Helper()
	h.network.run(h.network.bridge, "ip", "link", "set", h.port, "down")
}

// Mend plugs it in again.
func (h *NetworkHost) Mend() {
	h.network.tb.Helper()
	h.network.run(h.network.bridge, "ip", "link", "set", h.port, "up")
}

// owner names the user namespace in which all others are: who is root in it, may do in each what it likes.
func (n *Network) owner() string { return fmt.Sprintf("--user=/proc/%d/ns/user", n.bridge.PID()) }

// inside is a command in the network namespace of a process.
func (n *Network) inside(p *Process, argv ...string) *exec.Cmd {
	return exec.CommandContext(context.Background(), "nsenter", append([]string{ //nolint:gosec // ours
		n.owner(), fmt.Sprintf("--net=/proc/%d/ns/net", p.PID()), "--preserve-credentials",
	}, argv...)...)
}

func (n *Network) run(p *Process, argv ...string) {
	n.tb.Helper()
	if out, err := n.inside(p, argv...).CombinedOutput(); err != nil {
		n.tb.Fatalf("%v in a network namespace: %v: %s", argv, err, out)
	}
}

// awaitNamespace waits until the process has left the network namespace of this one, and has written down who it is in its user
// namespace: before that, no other can be made below it.
func (n *Network) awaitNamespace(p *Process) {
	n.tb.Helper()
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		n.tb.Fatal(err)
	}
	Eventually(n.tb, "a process has a network namespace of its own", func() bool {
		if !p.Alive() {
			n.tb.Fatalf("it makes no network namespace: %s", p.LastWords())
		}
		its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.PID()))
		groups, mapErr := os.ReadFile(fmt.Sprintf("/proc/%d/gid_map", p.PID())) // the last that unshare writes
		return err == nil && mapErr == nil && its != own && len(groups) > 0
	})
}
