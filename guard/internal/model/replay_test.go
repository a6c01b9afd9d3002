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

// small are the calls that the searches within the bounds of the replay come upon, and those beside them, each in one
// variant, or with -large in all that fit. They are in an order that is the same each time.
var small = sync.OnceValue(func() (ones []one) {
	within := replayed
	if modeltest.Quick() {
		within = within[:3]
	}
	texts := map[string]call{}
	for _, b := range within {
		w := newWatch()
		protocol.Run(&rules{watch: w}, b)
		for found := range w.calls {
			for _, is := range []call{found, found.near()} {
				texts[fmt.Sprint(is)] = is
			}
		}
	}
	for n, text := range slices.Sorted(maps.Keys(texts)) {
		is := texts[text]
		if !modeltest.Large() && is.quick() {
			ones = append(ones, one{&is, &variants[0]})
		}
		for j := range variants {
			if v := &variants[(n+j)%len(variants)]; v.fits(&is) {
				ones = append(ones, one{&is, v})
				if !modeltest.Large() {
					break
				}
			}
		}
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	rnd.Shuffle(len(ones), func(i, j int) { ones[i], ones[j] = ones[j], ones[i] })
	return ones
})

// embedded starts a Redis with a clock that is set.
func embedded(t *testing.T) *modeltest.Server { t.Helper(); return modeltest.Embedded(t, owners) }

// replays makes a call on a server, and returns how the answer differs from the model, or "".
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
