package model

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/model/replay"
)

// The replay has the scripts themselves do what the model says that they do: each call that
// a search comes upon, with what it finds, is made on a Redis, in each variant of what the
// model does not tell apart. The answer, and all that is there after it, must be as the
// model has it.

// calls are those that searches came upon, each once.
type calls struct {
	mu  sync.Mutex
	all map[call]struct{}
}

func (c *calls) add(w *watch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[call]struct{})
	}
	for one := range w.calls {
		c.all[one] = struct{}{}
		c.all[one.near()] = struct{}{}
	}
}

// near is a call beside one that was found, for rules that are a second line of defence, or
// matter within larger bounds only. Who released last asks again: as long as the first line
// stands, each claim of which an acquire may still arrive has a tombstone. Or who was granted
// the lock asks for a higher fence than that of the grant. Or who releases has handed the lock
// over under a fence that is ahead of the clock. Or who does not hold the lock wants it to stay
// taken. Or who waits brings a worse place than it has.
func (c call) near() call {
	switch {
	case c.release && c.holder == 0:
		c.above = max(c.now, c.last) + gap
	case c.release:
		c.keep = true
	case c.queue && c.places[0] > 0:
		c.place = c.places[0] + 2
	case c.holder == nobody && c.places[0] == 0 && c.last > 0:
		c.released, c.tombstone[0] = 0, false
	case c.holder == 0:
		c.floor = c.fence
	}
	return c
}

// replayAll makes all calls in all variants, on several servers at once.
func replayAll(t *testing.T, all map[call]struct{}) {
	t.Helper()
	const servers = 4
	shares := make([][]call, servers)
	n := 0
	for c := range all {
		shares[n%servers] = append(shares[n%servers], c)
		n++
	}
	for i, share := range shares {
		t.Run(fmt.Sprint("share ", i), func(t *testing.T) {
			t.Parallel()
			s, n := embedded(t, nil), 0
			for _, c := range share {
				n += s.inEach(t, c, i%2 == 0)
			}
			t.Logf("%d calls of scripts, %d with their variants", len(share), n)
		})
	}
}

// inEach makes a call in all variants.
func (s *server) inEach(t *testing.T, c call, some bool) (n int) {
	t.Helper()
	for i := range variants {
		if v := &variants[i]; v.fits(c) && (i == 0 || !sparing || some) {
			n++
			wrong := s.run(t, &rules{}, c, v)
			require.Empty(t, wrong, "script and model differ")
		}
	}
	return n
}

// small are the calls within smaller bounds.
var small = sync.OnceValue(func() map[call]struct{} {
	var all calls
	for _, b := range smaller {
		w := newWatch()
		run(&rules{watch: w}, b)
		all.add(w)
	}
	return all.all
})

// TestReplay is the replay without a search of its own: it takes seconds.
func TestReplay(t *testing.T) {
	t.Parallel()
	replayAll(t, small())
}

// TestRulesOfScripts takes the rules that scripts keep out of the model, one by one: each
// time, the scripts do something else.
func TestRulesOfScripts(t *testing.T) {
	t.Parallel()
	s := embedded(t, nil)
	for name, r := range scriptRules {
		found := ""
		for c := range small() {
			said, over := r.outcome(c)
			if was, before := (&rules{}).outcome(c); said != was || over != before {
				if found = s.run(t, r, c, &variants[0]); found != "" {
					break
				}
			}
		}
		assert.NotEmpty(t, found, name)
	}
}

// TestReplayOnRedis is a sample of the replay on a redis-server.
func TestReplayOnRedis(t *testing.T) {
	t.Parallel()
	s, n := &server{replay.Real(t, owners)}, 0
	for _, c := range slices.Collect(maps.Keys(small())) {
		if c.keep {
			continue // how much is left depends on how far fences are apart there
		}
		v := &variants[n%len(variants)]
		if n++; !v.fits(c) {
			v = &variants[0]
		}
		if wrong := s.run(t, &rules{}, c, v); wrong != "" {
			require.Fail(t, "script and model differ", wrong)
		}
	}
	t.Logf("%d calls", n)
}
