package gbtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// listenInside has a socket made in a network namespace, where it stays, and handed over: this process can't go there itself,
// as one that has threads can't.
const listenInside = `
import socket, sys
listener = socket.create_server((sys.argv[1], 0), backlog=128)
socket.send_fds(socket.socket(fileno=3), [b"."], [listener.fileno()])`

// Open returns an address at which hosts of the network reach what listens at addr outside of it.
func (n *Network) Open(addr string) string {
	n.tb.Helper()
	Require(n.tb, "python3")
	l, err := n.listen()
	if err != nil {
		n.tb.Fatalf("listen in a network namespace: %v", err)
	}
	passage := &passage{to: addr, conns: map[net.Conn]bool{}}
	passage.running.Go(func() { passage.accept(l) })
	n.tb.Cleanup(func() { l.Close(); passage.close() })
	return l.Addr().String()
}

func (n *Network) listen() (net.Listener, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	cmd := n.inside(n.bridge, "python3", "-c", listenInside, bridgeAddr)
	cmd.ExtraFiles = []*os.File{theirs}
	out, err := cmd.CombinedOutput()
	theirs.Close()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	rights := make([]byte, syscall.CmsgSpace(4))
	_, size, _, _, err := syscall.Recvmsg(pair[0], make([]byte, 1), rights, syscall.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:size])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("%d sockets came: %w", len(messages), err)
	}
	sockets, err := syscall.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(sockets[0]), "listener")
	defer f.Close()
	return net.FileListener(f)
}

// passage carries connections out of the network.
type passage struct {
	to      string
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
}

func (p *passage) accept(l net.Listener) {
	for {
		inside, err := l.Accept()
		if err != nil {
			return // the test has ended
		}
		p.running.Go(func() { p.carry(inside) })
	}
}

// carry ends with the connection's first end: neither Redis nor S3 is told half of one.
func (p *passage) carry(inside net.Conn) {
	outside, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.to)
	if err != nil {
		inside.Close() // it is refused there, and so it is here
		return
	}
	if !p.keep(inside, outside) {
		return
	}
	defer p.drop(inside, outside)
	p.running.Go(func() {
		_, _ = io.Copy(outside, inside) // however it ended, the other end hears of it
		p.drop(inside, outside)
	})
	_, _ = io.Copy(inside, outside)
}

func (p *passage) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			c.Close()
		} else {
			p.conns[c] = true
		}
	}
	return !p.closed
}

func (p *passage) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.conns, c)
	}
}

func (p *passage) close() {
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}
