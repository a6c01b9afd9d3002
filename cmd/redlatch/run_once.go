//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/guard"
)

var (
	errDone   = errors.New("it is done")
	errFailed = errors.New("the command failed")
)

// recorded is a command that guard.Once runs.
type recorded struct {
	keep  time.Duration
	code  chan error // the result of the command
	ended chan error // the error of Once, if the command ran
}

func newRecorded(keep time.Duration) *recorded {
	return &recorded{keep, make(chan error, 1), make(chan error, 1)}
}

// run calls begin when the command may run, and returns after end. If the command may not run, run sends the
// reason to others.
func (w *recorded) run(ctx context.Context, g *guard.Guard, key string, begin func(*guard.Lease), others chan<- error) {
	began := false
	_, _, err := guard.Once(ctx, g, guard.Key(key), w.keep, func(ctx context.Context) (struct{}, error) {
		lease, _ := guard.FromContext(ctx)
		began = true
		begin(lease)
		return struct{}{}, <-w.code
	})
	switch {
	case began:
		w.ended <- err
	case err == nil:
		others <- errDone
	default:
		others <- err
	}
}

// end lets Once record that the command succeeded, or forget that it began. Its error is a loss of the lock.
func (w *recorded) end(succeeded bool) error {
	var failed error
	if !succeeded {
		failed = errFailed
	}
	w.code <- failed
	if err := <-w.ended; errors.Is(err, guard.ErrLost) {
		return err
	}
	return nil
}

// done prints when the command was run, and where.
func (r *run) done(ctx context.Context) error {
	text := visible(r.key) + ": done"
	if info, err := get(ctx, r.inspector, r.key); err == nil && info.Record != nil {
		by := info.Record.Metadata
		if by == "" {
			by = info.Record.Instance
		}
		text += fmt.Sprintf(" %s ago by %s", age(info.Now, info.Record.Since), visible(by))
	}
	r.say(text, 0)
	return &exitError{Code: exitOK}
}
