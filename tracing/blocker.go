package tracing

import (
	"sync"

	"go.opentelemetry.io/otel/trace"
)

// blockers knows the holds of this process that others wait for. A key is in it only
// while it is held or waited for.
type blockers struct {
	mu    sync.Mutex
	byKey map[string]*blocker
}

// blocker is the latest hold of a key.
type blocker struct {
	key     string
	latest  trace.SpanContext
	holds   int // how many there were
	held    bool
	waiters int
}

// mark is a place in the sequence of a key's holds. The zero value is nowhere.
type mark struct {
	*blocker
	holds int
}

// wait notes that a caller waits for key: for its hold, if it has one, and for later holds.
func (o *blockers) wait(key string) mark {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := o.of(key)
	at.waiters++
	if at.held {
		return mark{at, at.holds - 1}
	}
	return mark{at, at.holds}
}

// passed ends a wait. It gives the last hold since it began, if there was one.
func (o *blockers) passed(since mark) (latest trace.SpanContext) {
	if since.blocker == nil {
		return trace.SpanContext{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	since.waiters--
	o.tidy(since.blocker)
	if since.blocker.holds > since.holds {
		latest = since.latest
	}
	return latest
}

// hold notes that key is held from now on.
func (o *blockers) hold(key string, sc trace.SpanContext) mark {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := o.of(key)
	at.latest, at.held = sc, true
	at.holds++
	return mark{at, at.holds}
}

// released ends a hold. It may be called only after the next one has begun.
func (o *blockers) released(m mark) {
	if m.blocker == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if m.blocker.holds == m.holds {
		m.held = false
	}
	o.tidy(m.blocker)
}

// of needs o.mu.
func (o *blockers) of(key string) *blocker {
	at := o.byKey[key]
	if at == nil {
		if o.byKey == nil {
			o.byKey = make(map[string]*blocker)
		}
		at = &blocker{key: key}
		o.byKey[key] = at
	}
	return at
}

// tidy needs o.mu.
func (o *blockers) tidy(at *blocker) {
	if !at.held && at.waiters == 0 && o.byKey[at.key] == at {
		delete(o.byKey, at.key)
	}
}
