package guardweb

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/inspect/internal/meter"
)

const (
	maxKept   = 10_000           // locks that a list has
	listTime  = 30 * time.Second // the longest that a list may take
	listPause = time.Second      // between two lists, or
	listShare = 20               // this many times as long as Redis worked for the earlier list
	listWait  = time.Second      // the wait of a viewer, if there is an earlier list
	silence   = 3 * time.Second  // an outage, if Redis does not answer for so long
	probeTime = 5 * time.Second  // without a command for so long, the page sends one
)

// found has the locks of one moment.
type found struct {
	locks  []inspect.Info
	broken []*inspect.FormatError
	more   bool      // there are more than maxKept
	cut    bool      // listTime ended before all keys were read
	at     time.Time // zero if there is no list yet

	err   error         // why the latest try failed
	since time.Time     // when Redis answered last; zero if it never did
	pause time.Duration // until the next list may be made; less than 0 if it may now
}

// source is the Inspector of a list.
type source interface {
	All(ctx context.Context, match string) iter.Seq2[inspect.Info, error]
	Get(ctx context.Context, key string) (inspect.Info, error)
}

// list makes one list at a time, of all locks, for all viewers and all searches.
type list struct {
	source source
	most   time.Duration // the longest that a list may take
	slot   chan struct{} // taken by the goroutine that makes a list

	mu       sync.Mutex // protects what follows
	last     found
	next     time.Time     // when the budget allows another list
	asking   time.Time     // when the current list was begun; zero without one
	answered time.Time     // when Redis answered last
	spent    time.Duration // of Redis, since the latest list began
}

func newList(s source, most time.Duration) *list {
	return &list{source: s, most: most, slot: make(chan struct{}, 1)}
}

// get returns a list that is as new as the budget allows.
func (l *list) get(ctx context.Context) found {
	f, due := l.current()
	if !due {
		return l.probe(ctx, f)
	}
	var enough <-chan time.Time
	if !f.at.IsZero() {
		timer := time.NewTimer(listWait)
		defer timer.Stop()
		enough = timer.C
	}
	select {
	case l.slot <- struct{}{}:
		defer func() { <-l.slot }()
		if _, due := l.current(); due { // no other request made one meanwhile
			l.make(context.WithoutCancel(ctx)) // other viewers use it, too
		}
	case <-enough:
	case <-ctx.Done():
		return found{err: context.Cause(ctx)}
	}
	f, _ = l.current()
	return f
}

// probe checks whether Redis answers, if the next list is due much later.
func (l *list) probe(ctx context.Context, f found) found {
	if time.Since(f.since) < probeTime || f.pause < listPause {
		return f
	}
	select {
	case l.slot <- struct{}{}:
		defer func() { <-l.slot }()
	default:
		return f
	}
	ctx, cancel := context.WithTimeout(l.noteAnswers(ctx), askTime)
	defer cancel()
	_, err := l.source.Get(ctx, "redlatch")
	if errors.Is(err, context.Canceled) {
		return f // the viewer has gone
	}
	l.mu.Lock()
	l.last.err = err
	l.mu.Unlock()
	f, _ = l.current()
	return f
}

// current returns the latest list, and whether another list may be made.
func (l *list) current() (f found, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	f = l.last
	f.since, f.pause = l.answered, l.next.Sub(now)
	latest := l.asking
	if l.answered.After(latest) {
		latest = l.answered
	}
	if !l.asking.IsZero() && now.Sub(latest) > silence {
		f.err = context.DeadlineExceeded
	}
	return f, !now.Before(l.next)
}

// make needs the slot. It charges the budget for each answer of Redis, errors included.
func (l *list) make(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.most)
	defer cancel()
	l.mu.Lock()
	l.asking, l.spent = time.Now(), 0
	l.mu.Unlock()
	f := l.ask(ctx)

	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(f.err, context.DeadlineExceeded) && l.spent > l.most/2 {
		f.cut, f.err = true, nil // it did answer
	}
	f.at, l.asking = time.Now(), time.Time{}
	l.next = f.at.Add(max(listPause, listShare*l.spent))
	if l.last.err = f.err; f.err == nil {
		l.last = f
	}
}

func (l *list) ask(ctx context.Context) (f found) {
	for info, err := range l.source.All(l.noteAnswers(ctx), "") {
		var format *inspect.FormatError
		switch {
		case len(f.locks)+len(f.broken) == maxKept:
			f.more = true
			return f
		case errors.As(err, &format):
			f.broken = append(f.broken, format)
		case err != nil:
			f.err = err
			return f
		default:
			info.Waiting = slices.Clone(info.Waiting[:min(1, len(info.Waiting))])
			f.locks = append(f.locks, info)
		}
	}
	return f
}

// noteAnswers notes each answer of Redis under a context.
func (l *list) noteAnswers(ctx context.Context) context.Context {
	return meter.With(ctx, func(took time.Duration) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.answered = time.Now()
		l.spent += took
	})
}

// put puts a key that was just changed into the list, for all viewers.
func (l *list) put(info inspect.Info) {
	l.mu.Lock()
	defer l.mu.Unlock()
	locks := slices.DeleteFunc(slices.Clone(l.last.locks), func(old inspect.Info) bool { return old.Key == info.Key })
	if len(info.Holders) > 0 {
		locks = append(locks, info)
	}
	l.last.locks = locks
}
