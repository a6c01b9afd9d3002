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
	listShare = 20               // so many times as long as Redis worked for the earlier one
	listWait  = time.Second      // a viewer waits so long, if there is an earlier list
	silence   = 3 * time.Second  // without an answer while it is asked: this is an outage
	probeTime = 5 * time.Second  // without a question: is there an outage?
)

// found are locks as they were at one time.
type found struct {
	locks  []inspect.Info
	broken []*inspect.FormatError
	more   bool      // there are more than maxKept
	cut    bool      // not all keys were looked at within listTime
	at     time.Time // zero if there is no list yet

	err   error         // why the latest try failed
	since time.Time     // when Redis answered last; zero if it never did
	pause time.Duration // until the next list may be made; less than 0 if it may now
}

// source is what a list is made of: an Inspector.
type source interface {
	All(ctx context.Context, match string) iter.Seq2[inspect.Info, error]
	Get(ctx context.Context, key string) (inspect.Info, error)
}

// list makes one list at a time, of all locks, for all viewers and all that they look for.
type list struct {
	source source
	most   time.Duration // the longest that a list may take
	slot   chan struct{} // the goroutine that makes a list has it

	mu       sync.Mutex // protects what follows
	last     found
	next     time.Time     // when the budget allows another list
	asking   time.Time     // since when a list is made; zero if none is
	answered time.Time     // when Redis answered last
	spent    time.Duration // of Redis, since the latest list began
}

func newList(s source, most time.Duration) *list {
	return &list{source: s, most: most, slot: make(chan struct{}, 1)}
}

// get gives a list that is as new as the budget allows.
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
			l.make(context.WithoutCancel(ctx)) // it is for others, too
		}
	case <-enough:
	case <-ctx.Done():
		return found{err: context.Cause(ctx)}
	}
	f, _ = l.current()
	return f
}

// probe asks whether Redis answers, where the next list is not due for long.
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

// current gives the latest list, and says whether another one may be made.
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

// put has the viewers see what was just done to a key, without another list.
func (l *list) put(info inspect.Info) {
	l.mu.Lock()
	defer l.mu.Unlock()
	locks := slices.DeleteFunc(slices.Clone(l.last.locks), func(old inspect.Info) bool { return old.Key == info.Key })
	if len(info.Holders) > 0 {
		locks = append(locks, info)
	}
	l.last.locks = locks
}
