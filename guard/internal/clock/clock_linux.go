package clock

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Clock ids of clock_gettime(2).
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// suspension is how long a machine has been suspended since it booted: what CLOCK_MONOTONIC,
// and with it Go's timers (golang/go#24595), did not count.
type suspension struct {
	read    func(id uintptr) (ns int64, ok bool)
	longest atomic.Int64
	drift   atomic.Int64 // wall clock against CLOCK_MONOTONIC when last compared
}

var machine = suspension{read: readClock}

// length returns for how long the machine was suspended. Asking takes two system calls, and a suspension moves the wall clock
// against the monotonic one: it is asked for only when that has moved. Each reading is a lower
// bound, as CLOCK_MONOTONIC is read last; the largest so far is the best of them, whatever
// delayed the others.
func (s *suspension) length(drift int64) time.Duration {
	known := s.longest.Load()
	if moved := drift - s.drift.Load(); -int64(time.Millisecond) < moved && moved < int64(time.Millisecond) {
		return time.Duration(known)
	}
	boot, ok := s.read(clockBoottime)
	mono, ok2 := s.read(clockMonotonic)
	if !ok || !ok2 {
		return time.Duration(known)
	}
	for boot-mono > known && !s.longest.CompareAndSwap(known, boot-mono) {
		known = s.longest.Load()
	}
	s.drift.Store(drift)
	return time.Duration(s.longest.Load())
}

func readClock(id uintptr) (int64, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano(), errno == 0
}
