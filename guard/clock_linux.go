package guard

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

var longestSuspension atomic.Int64

// suspended gives how long this machine has been suspended since it booted: what
// CLOCK_MONOTONIC, and with it Go's timers (golang/go#24595), did not count. Each
// reading is a lower bound, as CLOCK_MONOTONIC is read last; the largest so far is the
// best of them, whatever delayed the others.
func suspended() time.Duration {
	boot, ok := readClock(clockBoottime)
	mono, ok2 := readClock(clockMonotonic)
	if !ok || !ok2 {
		return 0
	}
	for {
		known := longestSuspension.Load()
		if boot-mono <= known {
			return time.Duration(known)
		}
		if longestSuspension.CompareAndSwap(known, boot-mono) {
			return time.Duration(boot - mono)
		}
	}
}

func readClock(id uintptr) (int64, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano(), errno == 0
}
