// Package stage runs the kit of the tests, internal/redistest, in a program that is no test.
package stage

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// Stage is the testing.TB that redistest wants, outside of a test. Its methods may be
// called from any goroutine, Fatalf only from that of play.
type Stage struct {
	testing.TB // nil: redistest calls only the methods below

	mu       sync.Mutex // protects what follows
	cleanups []func()
	errs     []error
}

// Run runs play with servers of redistest, and stops them when play has returned.
func Run(play func(s *Stage) error) error {
	s := &Stage{}
	done := make(chan struct{})
	go func() { // Fatalf ends a goroutine
		defer close(done)
		defer s.clear()
		if err := play(s); err != nil {
			s.Errorf("%w", err)
		}
	}()
	<-done
	return errors.Join(s.errs...)
}

func (s *Stage) clear() {
	for _, cleanup := range slices.Backward(s.cleanups) {
		cleanup()
	}
}

// Helper does nothing.
func (s *Stage) Helper() {}

// Cleanup has f called after play, the last one first.
func (s *Stage) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

// TempDir makes a directory that is removed after play.
func (s *Stage) TempDir() string {
	dir, err := os.MkdirTemp("", "redlatch-bench-")
	if err != nil {
		s.Fatalf("%w", err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Errorf notes an error for Run to return.
func (s *Stage) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, fmt.Errorf(format, args...)) //nolint:err113 // the text is redistest's
}

// Fatalf notes an error and ends the goroutine.
func (s *Stage) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

// Skipf is for a missing redis-server, without which nothing can be measured.
func (s *Stage) Skipf(format string, args ...any) { s.Fatalf(format, args...) }
