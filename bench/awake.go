package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
)

// keepAwake keeps each core busy with a thread of the lowest priority, until stop is called. An idle core of
// a virtual machine takes long to wake up: without this, rows of few callers measure the hypervisor,
// too.
func keepAwake() (stop func()) {
	const lowest = 19
	var threads sync.WaitGroup
	var done atomic.Bool
	for range runtime.NumCPU() {
		threads.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			if syscall.Setpriority(syscall.PRIO_PROCESS, 0, lowest) != nil {
				return // it would compete with what is measured
			}
			for !done.Load() {
			}
		})
	}
	return func() { done.Store(true); threads.Wait() }
}
