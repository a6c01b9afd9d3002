package guard

import "time"

// newTimer is time.NewTimer for a timer that is freed again soon.
func (g *Guard) newTimer(d time.Duration) *time.Timer {
	if t, _ := g.timers.Get().(*time.Timer); t != nil {
		t.Reset(d)
		return t
	}
	return time.NewTimer(d)
}

// free stops a timer. Nothing of it is left in its channel then.
func (g *Guard) free(t *time.Timer) {
	t.Stop()
	g.timers.Put(t)
}
