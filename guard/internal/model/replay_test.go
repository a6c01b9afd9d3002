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

// one is a call in a variant.
type one struct {
	*call
	*variant
}

// small are the calls that the searches within the bounds of the replay come upon, and those beside them, each in one
// variant. They are in an order that is the same each time.
var small = sync.OnceValue(func() (ones []one) {
	within := replayed
	if testing.Short() {
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
		if is.quick() {
			ones = append(ones, one{&is, &variants[0]})
		}
		for j := range variants {
			if v := &variants[(n+j)%len(variants)]; v.fits(&is) {
				ones = append(ones, one{&is, v})
				break
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
		at = time.Now()
	} else {
		s.Embed.SetTime(at)
	}
	p := newPlay(r, *c.call, c.variant, at.UnixMicro())
	require.NoError(t, s.Put(ctx, at, p.before))
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
		p.late = time.Since(at) + time.Millisecond
	}
	p.compare()
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
	s := modeltest.Real(t, owners)
	for _, c := range small()[:min(3000, len(small()))] {
		require.Empty(t, keeping(t, s, c), "script and model differ")
	}
}
