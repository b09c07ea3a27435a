//go:build ignore

// Command cpuby runs a command and tells what CPU time the processes took that ended
// meanwhile, by what they are: an operating system's account of a sandbox, of which no
// process sees all. It counts the whole machine, so nothing else should run. As root:
//
//	go run infra/cpuby/main.go 41 COMMAND… # divides by 41
//
// The kernel tells each thread's time as it ends (taskstats), and who starts what (the
// proc connector), from which the kind of a process is read: its name and runsc's command.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

type process struct {
	kind string
	cpu  time.Duration
}

var (
	mu        sync.Mutex
	processes = map[uint32]*process{} // by id; an id that comes again keeps the sum, under its last kind
	le        = binary.LittleEndian
)

func main() {
	n, err := strconv.ParseFloat(os.Args[1], 64)
	must(err)
	go follow(connector())
	go account(taskstats())
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	must(cmd.Run())
	time.Sleep(time.Second) // the last ones end, and are told of

	mu.Lock()
	defer mu.Unlock()
	cpu, number := map[string]time.Duration{}, map[string]int{}
	for _, p := range processes {
		cpu[p.kind] += p.cpu
		number[p.kind]++
	}
	fmt.Printf("%8s %8s  %s\n", "ms", "number", "kind")
	for _, kind := range slices.SortedFunc(maps.Keys(cpu), func(a, b string) int { return int(cpu[b] - cpu[a]) }) {
		fmt.Printf("%8.2f %8.2f  %s\n", cpu[kind].Seconds()*1000/n, float64(number[kind])/n, kind)
	}
}

// of is the process with this id. The lock is held.
func of(pid uint32) *process {
	if processes[pid] == nil {
		processes[pid] = &process{kind: "?"}
	}
	return processes[pid]
}

// kindOf is a process's name, with what a program of several parts was asked to do.
func kindOf(pid uint32) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(b) == 0 {
		return "?"
	}
	argv := strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
	name := filepath.Base(argv[0])
	for _, word := range argv[1:] {
		if slices.Contains([]string{"create", "start", "kill", "delete", "state", "boot", "gofer", "run", "umount", "cleanup", "service", "--version"}, word) {
			return name + " " + word
		}
	}
	return name
}

// connector is a socket on which the kernel tells of forks and execs.
func connector() int {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_CONNECTOR)
	must(err)
	must(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20))
	must(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}))
	var b bytes.Buffer
	must(binary.Write(&b, le, struct {
		length         uint32
		kind, flags    uint16
		seq, pid       uint32
		idx, val       uint32 // CN_IDX_PROC, CN_VAL_PROC
		cseq, ack      uint32
		clength, cflag uint16
		operation      uint32 // PROC_CN_MCAST_LISTEN
	}{length: 40, kind: unix.NLMSG_DONE, idx: 1, val: 1, clength: 4, operation: 1}))
	must(unix.Sendto(fd, b.Bytes(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	return fd
}

func follow(fd int) {
	b := make([]byte, 64<<10)
	for {
		n, err := unix.Read(fd, b)
		must(err)
		if n < 36+16+16 {
			continue
		}
		event, about := le.Uint32(b[36:]), b[52:]
		mu.Lock()
		switch parent, child := le.Uint32(about[4:]), le.Uint32(about[12:]); {
		case event == 1 && le.Uint32(about[8:]) == child: // a process, no thread
			kind := kindOf(parent)
			if p := processes[parent]; p != nil {
				kind = p.kind
			}
			of(child).kind = strings.TrimSuffix(kind, " (fork)") + " (fork)"
		case event == 2:
			if kind := kindOf(parent); kind != "?" {
				of(parent).kind = kind
			}
		}
		mu.Unlock()
	}
}

// taskstats is a socket on which the kernel tells what threads took that ended.
func taskstats() int {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC)
	must(err)
	must(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20))
	must(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	ask(fd, unix.GENL_ID_CTRL, unix.CTRL_CMD_GETFAMILY, unix.CTRL_ATTR_FAMILY_NAME, "TASKSTATS")
	b := make([]byte, 64<<10)
	n, err := unix.Read(fd, b)
	must(err)
	for kind, value := range attributes(b[20:n]) {
		if kind == unix.CTRL_ATTR_FAMILY_ID {
			cpus, err := os.ReadFile("/sys/devices/system/cpu/online")
			must(err)
			ask(fd, le.Uint16(value), unix.TASKSTATS_CMD_GET, unix.TASKSTATS_CMD_ATTR_REGISTER_CPUMASK, strings.TrimSpace(string(cpus)))
			return fd
		}
	}
	log.Fatal("this kernel has no taskstats")
	return 0
}

func ask(fd int, family uint16, command uint8, attribute uint16, value string) {
	size := 4 + len(value) + 1
	message := make([]byte, 20+(size+3)&^3)
	le.PutUint32(message, uint32(len(message)))
	le.PutUint16(message[4:], family)
	le.PutUint16(message[6:], unix.NLM_F_REQUEST)
	message[16], message[17] = command, 1
	le.PutUint16(message[20:], uint16(size))
	le.PutUint16(message[22:], attribute)
	copy(message[24:], value)
	must(unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
}

// attributes are those of a netlink message.
func attributes(b []byte) func(yield func(kind uint16, value []byte) bool) {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= 4 {
			size := int(le.Uint16(b))
			if size < 4 || size > len(b) || !yield(le.Uint16(b[2:]), b[4:size]) {
				return
			}
			b = b[min(len(b), (size+3)&^3):]
		}
	}
}

func account(fd int) {
	b := make([]byte, 1<<20)
	for {
		n, err := unix.Read(fd, b)
		must(err)
		for kind, value := range attributes(b[min(n, 20):n]) {
			if kind != unix.TASKSTATS_TYPE_AGGR_PID {
				continue
			}
			for kind, value := range attributes(value) {
				if kind != unix.TASKSTATS_TYPE_STATS {
					continue
				}
				var s unix.Taskstats
				copy(unsafe.Slice((*byte)(unsafe.Pointer(&s)), unsafe.Sizeof(s)), value)
				mu.Lock()
				of(s.Ac_tgid).cpu += time.Duration(s.Cpu_run_virtual_total)
				mu.Unlock()
			}
		}
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
