package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// stage is the testing.TB that redistest wants, outside of a test.
type stage struct {
	testing.TB // nil: redistest calls nothing but what is below

	mu       sync.Mutex // protects what follows
	cleanups []func()
	errs     []error
}

// onStage runs play with servers of redistest, and stops them when it is over.
func onStage(play func(s *stage) error) error {
	s := &stage{}
	over := make(chan struct{})
	go func() { // Fatalf ends a goroutine
		defer close(over)
		defer s.clear()
		if err := play(s); err != nil {
			s.Errorf("%w", err)
		}
	}()
	<-over
	return errors.Join(s.errs...)
}

func (s *stage) clear() {
	for _, cleanup := range slices.Backward(s.cleanups) {
		cleanup()
	}
}

func (s *stage) Helper() {}

func (s *stage) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

func (s *stage) TempDir() string {
	dir, err := os.MkdirTemp("", "redlatch-bench-")
	if err != nil {
		s.Fatalf("%w", err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (s *stage) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, fmt.Errorf(format, args...)) //nolint:err113 // the text is redistest's
}

func (s *stage) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

// Skipf is for a missing redis-server, without which nothing can be measured.
func (s *stage) Skipf(format string, args ...any) { s.Fatalf(format, args...) }
