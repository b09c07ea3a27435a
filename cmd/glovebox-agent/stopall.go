package main

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopPatience is how long stopAll tries.
const stopPatience = 3 * time.Second

// maxStuck is how often stopAll sees the same processes wait for a stopped one, before it lets that one go on.
const maxStuck = 5

// stopAll stops every process but this one, and reports whether none runs any more. A process may start another, or let one go on, while
// the signal goes round, so all of them have to be seen stopped twice; once is enough where one that had stopped before is alone. One that is stopped between vfork and exec keeps its parent waiting, which
// can't be stopped then: it is let go on for a moment, to get to its exec. Its parent stops as it wakes, and starts nothing else.
func stopAll(interpreter int) bool {
	pause, moment := 100*time.Microsecond, time.Millisecond
	for seen, stuck, patience := 0, 0, patientFor(stopPatience); !patience.isOver(); {
		_ = syscall.Kill(-1, syscall.SIGSTOP) // ESRCH: there is none
		before := hasStopped(interpreter)
		m, processes := look()
		switch m {
		case stopped:
			if seen++; seen == 2 || before && processes == 1 {
				return true
			}
			continue
		case waiting:
			if stuck++; stuck >= maxStuck {
				stuck = 0
				goOn()
				time.Sleep(moment)
				moment *= 2
			}
		case running:
			stuck = 0
		}
		seen = 0
		time.Sleep(pause)
		pause = min(2*pause, time.Millisecond)
	}
	return false
}

// motion is what the processes of a session do.
type motion int

const (
	stopped motion = iota // each thread is stopped, or dead
	waiting               // some wait in the kernel for one that is
	running
)

// nobody is no process.
const nobody = -1

// hasStopped reports whether each thread of a child has stopped, and it has not gone on since.
func hasStopped(pid int) bool {
	if pid == nobody {
		return false
	}
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo == int32(unix.SIGCHLD)
}

// look looks at every process but this one, and returns how many there are. Each execution ends with it, so it asks the kernel for as little as it can.
func look() (most motion, n int) {
	processes, err := numbersIn("/proc")
	if err != nil {
		return running, 0
	}
	for _, pid := range processes {
		if pid == "1" { // this one
			continue
		}
		n++
		threads, err := numbersIn("/proc/" + pid + "/task")
		if err != nil {
			return running, n
		}
		for _, tid := range threads {
			if most = max(most, motionOf("/proc/"+pid+"/task/"+tid+"/stat")); most == running {
				return running, n
			}
		}
	}
	return most, n
}

// standsStill reports whether no process but this one runs.
func standsStill() bool {
	m, _ := look()
	return m == stopped
}

// goOn lets the children of those that wait go on; all processes, where there are none.
func goOn() {
	processes, _ := numbersIn("/proc") // look has just read it
	waits, parents := map[string]bool{}, map[string]string{}
	for _, pid := range processes {
		if pid == "1" {
			continue
		}
		_, parents[pid] = stat("/proc/" + pid + "/stat")
		threads, _ := numbersIn("/proc/" + pid + "/task")
		waits[pid] = slices.ContainsFunc(threads, func(tid string) bool { return motionOf("/proc/"+pid+"/task/"+tid+"/stat") == waiting })
	}
	alone := true
	for pid, parent := range parents {
		if n, err := strconv.Atoi(pid); err == nil && waits[parent] {
			_ = syscall.Kill(n, syscall.SIGCONT) // it may have ended
			alone = false
		}
	}
	if alone {
		_ = syscall.Kill(-1, syscall.SIGCONT)
	}
}

// numbersIn returns the entries of a directory that are numbers; none where it is gone.
func numbersIn(dir string) (names []string, err error) {
	fd, err := open(dir, unix.O_DIRECTORY)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var entries [4096]byte
	for {
		n, err := unix.Getdents(fd, entries[:])
		if gone(err) { // a process that nobody has waited for yet
			return nil, nil
		}
		if err != nil || n == 0 {
			return names, err
		}
		from := len(names)
		_, _, names = unix.ParseDirent(entries[:n], -1, names)
		numbers := names[:from]
		for _, name := range names[from:] {
			if name[0] >= '0' && name[0] <= '9' {
				numbers = append(numbers, name)
			}
		}
		names = numbers
	}
}

// motionOf returns what the thread of that stat file does. One that is gone is dead.
func motionOf(path string) motion {
	m, _ := stat(path)
	return m
}

// readStat returns the state of the thread of that stat file, and the process that started its own.
func readStat(path string) (state byte, parent string, err error) {
	var text [512]byte
	fd, err := open(path, 0)
	if err != nil {
		return 0, "", err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, text[:])
	if err != nil {
		return 0, "", err
	}
	f := text[bytes.LastIndexByte(text[:n], ')')+1 : n] // behind the name, which may have anything in it
	if len(f) < 4 {
		return 0, "", errors.New("it is no stat file")
	}
	id, _, _ := bytes.Cut(f[3:], []byte(" "))
	return f[1], string(id), nil
}

// stat returns what the thread of that stat file does, and the process that started its own.
func stat(path string) (m motion, parent string) {
	state, parent, err := readStat(path)
	switch {
	case gone(err):
		return stopped, ""
	case err != nil:
		return running, ""
	case bytes.IndexByte([]byte("TtZX"), state) >= 0:
		m = stopped
	case state == 'D':
		m = waiting
	default:
		m = running
	}
	return m, parent
}

func open(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if !errors.Is(err, syscall.EINTR) {
			return fd, err
		}
	}
}

func gone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}
