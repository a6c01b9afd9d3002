package main

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
)

// tally counts what becomes of the attempts to pay.
type tally struct {
	attempts atomic.Int64 // begun
	done     atomic.Int64 // ended, whichever way
	busy     atomic.Int64 // answers that somebody else works on the order

	tasksDone chan struct{} // gets one for each task that ended

	mu       sync.Mutex // protects what follows
	failures int
	failure  error // the first
}

func newTally(o options) *tally {
	return &tally{tasksDone: make(chan struct{}, o.orders*o.attempts)}
}

// taskRan is told how a run of a task ended. asynq repeats one that failed, unless that
// is of no use.
func (t *tally) taskRan(err error) {
	switch {
	case errors.Is(err, guard.ErrBusy):
		t.busy.Add(1)
		return
	case errors.Is(err, guard.ErrStore):
		return // nothing was done: as good as busy
	case err != nil:
		t.fail(err)
		if !errors.Is(err, asynq.SkipRetry) {
			return
		}
	}
	t.done.Add(1)
	select {
	case t.tasksDone <- struct{}{}:
	default: // nobody waits for the tasks of -serve
	}
}

// fail takes note of an answer that nobody should get.
func (t *tally) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures++
	if t.failure == nil {
		t.failure = err
	}
}

// failed gives the number of failures, and the first.
func (t *tally) failed() (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failures, t.failure
}
