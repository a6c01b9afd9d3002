package chaos_test

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/redlatch/redlatch/guard"
)

const (
	carefulPulse  = 5 * time.Millisecond
	stubbornPulse = 20 * time.Millisecond
)

// work is what runs under the lock.
func (h *hold) work(ctx context.Context, l *guard.Lease) {
	h.lease.Entered, h.lease.Fence, h.held = stamp(), l.Fence(), l
	h.w.saw(l.Owner())
	stop := context.AfterFunc(ctx, func() { h.ended.Store(stamp()) })
	defer func() {
		stop()
		h.lease.Left, h.lease.Ended = stamp(), h.ended.Load()
		h.lease.Deadline = l.Deadline().UnixNano()
	}()
	h.believe()
	h.write(entered)
	if h.plan.again {
		h.enterAgain(ctx)
	}
	if h.plan.inner != nil {
		_ = h.call(ctx, *h.plan.inner)
	}
	h.dwell(ctx)
	switch h.plan.ending {
	case panics:
		panic(errPlanned)
	case exits:
		runtime.Goexit()
	}
}

// dwell spends the time of the work.
func (h *hold) dwell(ctx context.Context) {
	if h.plan.duration == 0 {
		return
	}
	if h.plan.manner == trusting {
		rest(h.plan.duration, ctx.Done())
		if ctx.Err() == nil {
			h.write(wrote)
		}
		return
	}
	pulse := carefulPulse
	if h.plan.manner == stubborn {
		pulse = stubbornPulse
	}
	for begun := time.Now(); time.Since(begun) < h.plan.duration; {
		if !h.believe() && h.plan.manner == careful {
			return
		}
		h.write(wrote)
		rest(pulse, nil)
	}
	h.believe()
}

// believe asks the lease whether it is held. What it answers was true a moment before.
// Work that trusts its context does not ask: that would end the lease, too.
func (h *hold) believe() bool {
	if h.plan.manner == trusting {
		return true
	}
	at := stamp()
	if h.held.Err() != nil {
		return false
	}
	h.lease.Believed = at
	return true
}

// write writes to the guarded resource.
func (h *hold) write(kind eventKind) {
	l := h.lease // a copy: the worker goes on
	h.w.ask(event{Kind: kind, Lease: &l, Waited: h.waited})
}

// enterAgain takes the same lock a second time, which the context allows.
func (h *hold) enterAgain(ctx context.Context) {
	h.lease.Nested = true
	err := h.w.guard.WithLock(ctx, guard.Key(h.plan.key), func(ctx context.Context) error {
		if fence, _ := guard.Fence(ctx); fence != h.lease.Fence {
			h.w.tell(event{Kind: missed, Wrong: "a lock that was entered again has another fence"})
		}
		return nil
	})
	known := err == nil || errors.Is(err, guard.ErrLost) || errors.Is(err, guard.ErrStore) || ctx.Err() != nil
	if !known {
		h.w.tell(event{Kind: missed, Wrong: "entering again: " + err.Error()})
	}
}
