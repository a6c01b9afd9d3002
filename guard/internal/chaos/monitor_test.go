package chaos_test

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	lookPulse     = 100 * time.Millisecond
	settleTimeout = 60 * time.Second
	// repairAfter is how long a server may keep its old role when another has taken over. By
	// itself, Sentinel takes 10 s and more to make one a replica.
	repairAfter = 4 * time.Second
)

// group is servers of which some follow others.
type group interface {
	// entrances are the addresses that a client begins with.
	startupAddrs() []string
	// look asks all servers which of them serves what.
	look() view
	// replace promotes a replica, if the topology lets it choose. It is planned if the primary takes
	// part in it, so that nothing is lost.
	replace(replica int) (planned bool, err error)
	// repair makes a replica of a server.
	repair(server int, v view)
	// notice is how long clients may go on with a server after all agree that it was
	// replaced.
	notice() time.Duration
}

// view is which server serves what.
type view struct {
	assignment string // what all that answer agree about, or nothing
	silent     bool   // a server may go on with something else, and does not answer
	full       bool   // all that may know better answer
	primaries  []int
	healthy    bool  // every server answers and has the expected role
	stray      []int // servers that do not
}

// monitor looks at a group all the time. What its primaries knew may be lost when others
// are promoted.
type monitor struct {
	group  group
	clocks clocks
	stop   chan struct{}
	done   chan struct{}

	mu        sync.Mutex // protects what follows
	view      view
	at        int64 // the last instant at which all agreed about view, for sure
	healthy   bool
	disturbed int // how often
	losses    []loss
	waiting   []chan struct{} // for that
	planned   bool            // the next time, nothing is lost
}

func newMonitor(t *testing.T, g group, cs clocks) *monitor {
	k := &monitor{group: g, clocks: cs, stop: make(chan struct{}), done: make(chan struct{})}
	go k.run()
	t.Cleanup(func() { close(k.stop); <-k.done })
	k.settle(t)
	return k
}

func (k *monitor) run() {
	defer close(k.done)
	strays := make(map[int]time.Time)
	for ; !isClosed(k.stop); rest(lookPulse, k.stop) {
		before, at, v := locked(k, func() int { return k.disturbed }), stamp(), k.group.look()
		if v.assignment != "" {
			k.agreed(v, at, before)
		} else {
			k.disturb()
		}
		maps.DeleteFunc(strays, func(i int, _ time.Time) bool { return !slices.Contains(v.stray, i) })
		for _, i := range v.stray {
			if _, known := strays[i]; !known {
				strays[i] = time.Now()
			} else if time.Since(strays[i]) > repairAfter {
				k.group.repair(i, v)
			}
		}
	}
}

// agreed takes in what all agree about.
func (k *monitor) agreed(v view, at int64, before int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	replaced := k.view.assignment != "" && !slices.Equal(k.view.primaries, v.primaries)
	if replaced {
		for _, w := range k.waiting {
			close(w)
		}
		k.waiting = nil
	}
	if v.silent {
		k.healthy = false
		return
	}
	if replaced {
		span := span{k.at, stamp() + int64(k.group.notice())}
		if !k.planned {
			k.losses = append(k.losses, loss{span: span, twice: true})
		} else if k.clocks.differ() {
			k.losses = append(k.losses, loss{span: span}) // keys expire earlier where the clock is ahead
		}
		k.planned = false
	}
	if replaced || v.full {
		k.at = at
	}
	// What was done to a server since the look began does not show in it.
	k.view, k.healthy = v, v.healthy && k.disturbed == before
}

// disturb notes that a server is not well, as the next look may show.
func (k *monitor) disturb() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.disturbed++
	k.healthy = false
}

// replacement is closed when primaries were replaced the next time.
func (k *monitor) replacement() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := make(chan struct{})
	k.waiting = append(k.waiting, w)
	return w
}

func locked[T any](k *monitor, get func() T) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	return get()
}

// expect notes that the next replacement loses nothing.
func (k *monitor) expect(planned bool) { locked(k, func() any { k.planned = planned; return nil }) }

func (k *monitor) isHealthy() bool { return locked(k, func() bool { return k.healthy }) }

func (k *monitor) isPrimary(server int) bool {
	return locked(k, func() bool { return slices.Contains(k.view.primaries, server) })
}

// settle waits until all is as it should be.
func (k *monitor) settle(tb testing.TB) {
	tb.Helper()
	for begun := time.Now(); !k.isHealthy(); rest(lookPulse, nil) {
		if time.Since(begun) > settleTimeout {
			tb.Fatalf("the servers do not find together: %+v", k.group.look())
		}
	}
}

// lost returns the times when data may have been lost.
func (k *monitor) lost() []loss { return locked(k, func() []loss { return slices.Clone(k.losses) }) }
