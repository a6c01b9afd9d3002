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

var (
	longestSuspension atomic.Int64
	wallDrift         atomic.Int64 // wall clock against CLOCK_MONOTONIC when last compared
)

// suspended gives how long this machine has been suspended since it booted: what
// CLOCK_MONOTONIC, and with it Go's timers (golang/go#24595), did not count. Asking takes
// two system calls, and a suspension moves the wall clock against the monotonic one: it
// is asked for only when that has moved. Each reading is a lower bound, as
// CLOCK_MONOTONIC is read last; the largest so far is the best of them, whatever
// delayed the others.
func suspended(drift int64) time.Duration {
	known := longestSuspension.Load()
	if moved := drift - wallDrift.Load(); -int64(time.Millisecond) < moved && moved < int64(time.Millisecond) {
		return time.Duration(known)
	}
	boot, ok := readClock(clockBoottime)
	mono, ok2 := readClock(clockMonotonic)
	if !ok || !ok2 {
		return time.Duration(known)
	}
	for boot-mono > known && !longestSuspension.CompareAndSwap(known, boot-mono) {
		known = longestSuspension.Load()
	}
	wallDrift.Store(drift)
	return time.Duration(longestSuspension.Load())
}

func readClock(id uintptr) (int64, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano(), errno == 0
}
