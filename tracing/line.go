package tracing

import (
	"container/list"
	"sync"
	"time"
)

// line has the times at which the waits of a name began that have not ended, in order.
type line struct {
	mu    sync.Mutex
	times list.List
}

func (l *line) join() *list.Element {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.times.PushBack(time.Now())
}

func (l *line) leave(place *list.Element) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times.Remove(place)
}

// longest returns how long the oldest wait has taken so far, 0 if there is none.
func (l *line) longest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := l.times.Front()
	if oldest == nil {
		return 0
	}
	return time.Since(oldest.Value.(time.Time))
}
