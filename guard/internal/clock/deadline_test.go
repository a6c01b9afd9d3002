package clock_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

type valueKey struct{}

// A Deadline is a context like any other, whether or not a goroutine waits for it.
func TestDeadline_ADeadlineEnds(t *testing.T) {
	for name, waits := range map[string]bool{"waited for": true, "looked at": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, 7))
				defer cancel()
				at := time.Now().Add(time.Second)
				over, left := clock.WithDeadline(parent, at), clock.WithDeadline(parent, at.Add(time.Second))
				defer over.Cancel()
				defer left.Cancel()
				require.NoError(t, over.Err())
				if waits {
					<-over.Done()
					assert.Equal(t, at, time.Now())
				} else {
					time.Sleep(time.Second)
				}
				assert.Equal(t, context.DeadlineExceeded, over.Err())
				assert.Equal(t, 7, over.Value(valueKey{}))
				cancel()
				if waits {
					<-left.Done()
				}
				assert.Equal(t, context.Canceled, left.Err())
				time.Sleep(2 * time.Second)
				assert.Equal(t, context.Canceled, left.Err(), "why it ended does not change")
				deadline, ends := left.Deadline()
				assert.True(t, ends)
				assert.Equal(t, at.Add(time.Second), deadline)
			})
		})
	}
}

// Who derives a context from a Deadline needs no goroutine for it, which would outlive the bubble,
// and a timer does not outlive Cancel.
func TestDeadline_ADeadlineThatIsCanceledEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := clock.WithDeadline(context.Background(), time.Now().Add(time.Hour))
		before := runtime.NumGoroutine()
		child, cancel := context.WithCancel(d)
		defer cancel()
		assert.Equal(t, before, runtime.NumGoroutine())
		done := d.Done()
		assert.Equal(t, done, d.Done(), "there is one timer")
		d.Cancel()
		<-child.Done()
		assert.Equal(t, context.Canceled, child.Err())
		late := clock.WithDeadline(context.Background(), time.Now().Add(time.Hour))
		late.Cancel()
		<-late.Done()
		assert.Equal(t, context.Canceled, late.Err())
	})
}

// A context that only adds a value to a Deadline ends as that does: its end by time is no caller's
// leaving. A context that can end by itself is its caller's.
func TestDeadline_ACallerIsFoundUnderValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, leave := context.WithCancel(t.Context())
		defer leave()
		d := clock.WithDeadline(parent, time.Now().Add(time.Second))
		defer d.Cancel()
		valued := context.WithValue(context.WithValue(d, valueKey{}, 7), valueKey{}, 8)
		assert.Same(t, parent, clock.Caller(valued))
		canceled, cancel := context.WithCancel(valued)
		defer cancel()
		for name, ctx := range map[string]context.Context{
			"can be canceled": canceled, "below such a context": context.WithValue(canceled, valueKey{}, 9),
			"without an end": context.WithoutCancel(d),
			"no Deadline":    parent,
		} {
			assert.True(t, ctx == clock.Caller(ctx), name) //nolint:testifylint // some are no pointers
		}
	})
}

// Work that runs on without its caller has the values and the deadline of its context, not its end.
func TestDeadline_AsynchronousWorkDoesNotEndWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, 7))
		d := clock.WithDeadline(parent, time.Now().Add(time.Second))
		defer d.Cancel()
		detached := clock.Detach(d)
		defer detached.Cancel()
		assert.Same(t, parent, clock.Caller(d))
		cancel()
		require.NoError(t, detached.Err())
		assert.Equal(t, 7, detached.Value(valueKey{}))
		at, ends := detached.Deadline()
		assert.True(t, ends)
		assert.Equal(t, time.Now().Add(time.Second), at)
		<-detached.Done()
		assert.Equal(t, context.DeadlineExceeded, detached.Err())

		at, _ = clock.Detach(context.Background()).Deadline()
		assert.Greater(t, time.Until(at), 50*365*24*time.Hour)
	})
}
