package tracing

import (
	"sync"
	"time"
)

// line has the waits of a name that have not ended, in the order in which they began.
type line struct {
	mu             sync.Mutex
	oldest, newest *wait
}

func (l *line) join(w *wait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.joined, w.older = time.Now(), l.newest
	if l.newest == nil {
		l.oldest = w
	} else {
		l.newest.newer = w
	}
	l.newest = w
}

func (l *line) leave(w *wait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.older == nil {
		l.oldest = w.newer
	} else {
		w.older.newer = w.newer
	}
	if w.newer == nil {
		l.newest = w.older
	} else {
		w.newer.older = w.older
	}
	w.older, w.newer = nil, nil // a caller may keep the context
}

// longest returns how long the oldest wait has taken so far, 0 if there is none.
func (l *line) longest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.oldest == nil {
		return 0
	}
	return time.Since(l.oldest.joined)
}
