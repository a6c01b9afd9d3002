// Package guardslog logs what goes wrong with locks: leases that were lost, Redis that does
// not answer, work that runs without its lock, waits that take long.
//
//	g, err := guard.New(rdb, guard.Observe(guardslog.New(slog.Default())))
//
// It logs the lock's Name, never its key: keys may be personal data. Of the same thing under
// the same Name it logs one line each 10 s, with the number of those that it left out.
package guardslog

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard"
)

// Option configures New. A nil Option is ignored.
type Option func(*observer)

// LongWait is from when on a wait is logged, also a wait that ended with the lock. The default
// is 5 s; 0 or less logs none.
func LongWait(d time.Duration) Option { return func(o *observer) { o.longWait = d } }

// Every is how long there is one line at most for the same thing under the same Name. The
// default is 10 s; 0 or less logs all.
func Every(d time.Duration) Option { return func(o *observer) { o.every = d } }

// New makes an Observer that logs to l, or to slog.Default if that is nil: a lost lease,
// work that runs without its lock, and work of guard.Once whose end is not known as errors; failures of the store, of
// releases, keys of guard.Once with another input, results that it did not keep, and long waits as warnings. The context of the call goes with each line. It may be given to several
// Guards.
func New(l *slog.Logger, opts ...Option) guard.Observer {
	o := &observer{log: l, longWait: 5 * time.Second, every: 10 * time.Second, seen: make(map[kind]*seen)}
	for _, opt := range opts {
		if opt != nil {
			opt(o)
		}
	}
	return o
}

type observer struct {
	guard.NopObserver

	log      *slog.Logger
	longWait time.Duration
	every    time.Duration

	mu   sync.Mutex
	seen map[kind]*seen
}

// kind is what counts as the same thing.
type kind struct{ name, message, errorType string }

type seen struct {
	at      time.Time
	omitted int
}

// mostKinds bounds the memory, in case that a program puts keys into names.
const mostKinds = 1000

// WaitEnd implements guard.Observer.
func (o *observer) WaitEnd(ctx context.Context, l guard.Lock, r guard.WaitResult) {
	if o.longWait > 0 && r.Elapsed >= o.longWait {
		o.tell(ctx, slog.LevelWarn, "long wait for a lock", l, r.Err,
			slog.Duration("waited", r.Elapsed), slog.String("outcome", r.Outcome))
	}
}

// Event implements guard.Observer.
func (o *observer) Event(ctx context.Context, l guard.Lock, e guard.Event) {
	op := slog.String("op", e.Op)
	switch e.Kind {
	case guard.EventLoss:
		o.tell(ctx, slog.LevelError, "lock lost under its work", l, e.Err)
	case guard.EventFailedOpen:
		o.tell(ctx, slog.LevelError, "work runs without its lock", l, e.Err)
	case guard.EventStoreFailure:
		o.tell(ctx, slog.LevelWarn, "lock store failed", l, e.Err, op)
	case guard.EventUnknownOutcome:
		o.tell(ctx, slog.LevelError, "work of Once began and never finished", l, e.Err)
	case guard.EventOtherInput:
		o.tell(ctx, slog.LevelWarn, "key of Once used with another input", l, e.Err)
	case guard.EventNotKept:
		o.tell(ctx, slog.LevelWarn, "result of Once not kept", l, e.Err, op)
	case guard.EventReleaseFailure:
		o.tell(ctx, slog.LevelWarn, "release of a lock not confirmed", l, e.Err, op)
	default: // all is in order
	}
}

func (o *observer) tell(ctx context.Context, level slog.Level, message string, l guard.Lock, err error, attrs ...slog.Attr) {
	log := o.log
	if log == nil {
		log = slog.Default()
	}
	if !log.Enabled(ctx, level) {
		return
	}
	var typed interface{ ErrorType() string }
	what := kind{name: l.Name, message: message}
	if errors.As(err, &typed) {
		what.errorType = typed.ErrorType()
	}
	omitted, now := o.admit(what)
	if !now {
		return
	}
	if l.Name != "" {
		attrs = append([]slog.Attr{slog.String("lock", l.Name)}, attrs...)
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	if what.errorType != "" {
		attrs = append(attrs, slog.String("error_type", what.errorType))
	}
	if omitted > 0 {
		attrs = append(attrs, slog.Int("omitted", omitted))
	}
	log.LogAttrs(ctx, level, message, attrs...)
}

// admit says whether a line is due, and how many were left out since the last one.
func (o *observer) admit(what kind) (omitted int, now bool) {
	if o.every <= 0 {
		return 0, true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	at, s := time.Now(), o.seen[what]
	switch {
	case s == nil:
		if len(o.seen) >= mostKinds {
			clear(o.seen)
		}
		o.seen[what] = &seen{at: at}
		return 0, true
	case at.Sub(s.at) < o.every:
		s.omitted++
		return 0, false
	}
	omitted = s.omitted
	*s = seen{at: at}
	return omitted, true
}
