package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
)

// The replay has the scripts themselves do what the model says that they do: each call that
// a search comes upon, with what it finds, is made on a Redis, in variants of what the
// model does not tell apart. The answer, and all that is there after it, must be as the
// model has it.

// one is a call in a variant.
type one struct {
	*call
	*variant
}

// calls are those that searches came upon, each once.
type calls struct {
	mu  sync.Mutex
	ofs []*watch
}

// watched are rules that are kept, and watched.
func (c *calls) watched() *rules {
	w := newWatch()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ofs = append(c.ofs, w)
	return &rules{watch: w}
}

// in gives the calls, and those beside them, in variants: all that fit, or some one for each call, and the quick ways of
// the scripts. They are in an order that is the same each time.
func (c *calls) in(all bool, but map[call]bool) (ones []one) {
	texts := map[string]call{}
	for _, w := range c.ofs {
		for found := range w.calls {
			for _, is := range []call{found, found.near()} {
				if !but[is] {
					texts[fmt.Sprint(is)] = is
				}
			}
		}
	}
	n := 0
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		is := texts[text]
		if !all && is.quick() {
			ones = append(ones, one{&is, &variants[0]})
		}
		for j := range variants {
			if v := &variants[(n+j)%len(variants)]; v.fits(&is) {
				ones = append(ones, one{&is, v})
				if !all {
					break
				}
			}
		}
		n++
	}
	return ones
}

// small are the calls within small bounds, each in one variant. With -large, those of few claims are made in all variants.
var small = sync.OnceValue(func() (ones []one) {
	seen := map[call]bool{}
	for i, some := range replayed {
		if i > 0 && modeltest.Quick() {
			break
		}
		var found calls
		for _, b := range some {
			protocol.Run(found.watched(), b)
		}
		ones = append(ones, found.in(i == 0 && modeltest.Large(), seen)...)
		for _, c := range ones {
			seen[*c.call] = true
		}
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	rnd.Shuffle(len(ones), func(i, j int) { ones[i], ones[j] = ones[j], ones[i] })
	return ones
})

// embedded starts a Redis with a clock that is set.
func embedded(t *testing.T) *modeltest.Server { t.Helper(); return modeltest.Embedded(t, owners) }

// replays makes a call on a server, and says what is not as it should be.
func (r *rules) replays(t *testing.T, s *modeltest.Server, c one) string {
	t.Helper()
	ctx, at := t.Context(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if s.Embed == nil {
		now, err := s.Client.Time(ctx).Result()
		require.NoError(t, err)
		at = now
	} else {
		s.Embed.SetTime(at)
	}
	p := newPlay(r, *c.call, c.variant, at.UnixMicro())
	require.NoError(t, s.Put(ctx, p.before))
	name, keys, args := p.args()
	reply, err := s.Client.EvalSha(ctx, s.Scripts[name], keys, args...).Result()
	if err == nil {
		err, _ = reply.([]any)[0].(error)
	}
	if err != nil {
		return fmt.Sprintf("%s %v: %v", name, args, err)
	}
	p.after, err = s.Look(ctx)
	require.NoError(t, err)
	p.reply, _ = reply.([]any)[0].(string)
	p.messages = s.Messages(t)
	if s.Embed == nil {
		p.compareLoosely()
	} else {
		p.compare()
	}
	return p.differs(name, args, reply, "left", p.after)
}

func keeping(t *testing.T, s *modeltest.Server, c one) string {
	t.Helper()
	return (&rules{}).replays(t, s, c)
}

// TestReplay makes all calls within small bounds.
func TestReplay(t *testing.T) {
	t.Parallel()
	modeltest.InShares(t, small(), embedded, keeping)
}

// TestReplay_OnRedis is a sample of the replay on a redis-server.
func TestReplay_OnRedis(t *testing.T) {
	t.Parallel()
	s, n := modeltest.Real(t, owners), 0
	for _, c := range small()[:min(3000, len(small()))] {
		if !c.edge {
			n++
			require.Empty(t, keeping(t, s, c), "script and model differ")
		}
	}
	t.Logf("%d calls", n)
}
