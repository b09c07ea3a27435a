package config

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// ErrAddr means that an address is none to listen on.
var ErrAddr = errors.New("want host:port, or fd:N with N the number of a listening socket")

// Listen opens the socket that a setting names: host:port, or fd:N, one that was
// inherited.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	number, inherited := strings.CutPrefix(addr, "fd:")
	if !inherited {
		_, port, err := net.SplitHostPort(addr)
		if err == nil {
			_, err = net.DefaultResolver.LookupPort(ctx, "tcp", port)
		}
		if err != nil {
			return nil, fmt.Errorf("listen on %q: %w: %w", addr, ErrAddr, err)
		}
		var lc net.ListenConfig
		return lc.Listen(ctx, "tcp", addr)
	}
	fd, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", addr, ErrAddr)
	}
	file := os.NewFile(uintptr(fd), "inherited socket")
	defer file.Close()
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("listen on inherited %s: %w", addr, err)
	}
	return l, nil
}
