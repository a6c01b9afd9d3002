package task

import (
	"sync"
	"time"
)

// Group owns goroutines. Nothing starts once it is closed.
type Group struct {
	mu      sync.Mutex
	running int
	closed  bool
	idle    chan struct{} // closed when the group is and nothing runs
	pause   chan struct{} // closed when nothing runs, while WaitIdle waits
}

// NewGroup makes a group in which nothing runs yet.
func NewGroup() *Group { return &Group{idle: make(chan struct{})} }

// Go runs fn on a goroutine. It does nothing and returns false after Close.
func (b *Group) Go(fn func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.running++
	go func() {
		defer b.exit()
		fn()
	}()
	return true
}

func (b *Group) exit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
	if b.running > 0 {
		return
	}
	if b.pause != nil {
		close(b.pause)
		b.pause = nil
	}
	if b.closed {
		close(b.idle)
	}
}

// WaitIdle waits until nothing runs, but no longer than d.
func (b *Group) WaitIdle(d time.Duration) {
	b.mu.Lock()
	if b.running == 0 {
		b.mu.Unlock()
		return
	}
	pause := make(chan struct{})
	b.pause = pause
	b.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-pause:
	case <-timer.C:
	}
}

// Close refuses further goroutines and returns a channel that is closed when all are gone.
func (b *Group) Close() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		if b.running == 0 {
			close(b.idle)
		}
	}
	return b.idle
}

// IsClosed returns whether a channel is closed, without waiting for it.
func IsClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
