package guard

import (
	"sync"
	"time"
)

// background owns every goroutine of a Guard: nothing starts once it was joined.
type background struct {
	mu      sync.Mutex
	running int
	joined  bool
	idle    chan struct{} // closed when joined and nothing runs
	pause   chan struct{} // closed when nothing runs, while quiet waits
}

func newBackground() *background { return &background{idle: make(chan struct{})} }

// spawn runs fn on a goroutine. It does nothing and returns false after join.
func (b *background) spawn(fn func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.joined {
		return false
	}
	b.running++
	go func() {
		defer b.done()
		fn()
	}()
	return true
}

func (b *background) done() {
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
	if b.joined {
		close(b.idle)
	}
}

// quiet waits until nothing runs, but no longer than d.
func (b *background) quiet(d time.Duration) {
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

// join refuses further goroutines and returns a channel that is closed when all are gone.
func (b *background) join() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.joined {
		b.joined = true
		if b.running == 0 {
			close(b.idle)
		}
	}
	return b.idle
}
