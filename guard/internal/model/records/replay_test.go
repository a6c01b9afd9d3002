package records

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
)

// The replay goes the shortest way to each kind of call that the search comes upon: the commands
// and faults that lead there, on the scripts and on the store in memory. Each answer has to be that
// of the model, and so has what a further claim gets in the end.

const (
	ttl  = 30 * time.Second
	keep = time.Hour
	aged = 10 * time.Minute // the ttl of a record before the last call
)

// place is a store to which commands are sent. An answer's fences are those of the place.
type place interface {
	guardstore.Recorder

	begin(t *testing.T)
	fault(t *testing.T, e *event) bool // false: it cannot be brought about
	age(t *testing.T)                  // before the last call
	look(t *testing.T, p *play)
	heard(t *testing.T) []string // the owners that were asked to ask, since it was called last
}

// reply is an answer with the fences of a place.
type reply struct {
	said

	fence, earlier uint64
	result         string
}

// play is one way on a place.
type play struct {
	state  state
	fences map[uint8]uint64
	wrong  []string
}

func name(o owner) string     { return fmt.Sprintf("i%d-1", o) }
func resultOf(o owner) string { return fmt.Sprintf("7 of\r\n%d", o) }

func input(n uint8) string {
	return [...]string{"", "one", "two"}[n]
}

func (p *play) check(what string, model, store any) {
	if m, s := fmt.Sprint(model), fmt.Sprint(store); m != s {
		p.wrong = append(p.wrong, fmt.Sprintf("  %s: model %s, store %s", what, m, s))
	}
}

// compare looks at an answer, and learns the fence of a new hold from it.
func (p *play) compare(what string, want answer, got reply, heard []string) {
	p.check(what+" says", want.said, got.said)
	if _, known := p.fences[want.fence]; want.claim == guardstore.ClaimHeld && !known {
		p.check(what+": its fence is above all others", true, got.fence > slices.Max(slices.Collect(maps.Values(p.fences))))
		p.fences[want.fence] = got.fence
	}
	p.check(what+" gives the fence", p.fences[want.fence], got.fence)
	p.check(what+" gives who began before", p.fences[want.earlier], got.earlier)
	result := ""
	if want.of != noOwner {
		result = resultOf(want.of)
	}
	p.check(what+" gives the result", result, got.result)
	notified := []string{}
	for o := range owner(owners) {
		if want.notified&(1<<o) != 0 {
			notified = append(notified, name(o))
		}
	}
	slices.Sort(heard)
	p.check(what+" tells", notified, heard)
}

// goes makes a way on a place, and returns how an answer differs from the model, or "".
func goes(t *testing.T, on place, r *rules, way []*event) (wrong string, done bool) {
	t.Helper()
	p := &play{state: begin(budget{}), fences: map[uint8]uint64{0: 0}}
	s := &p.state
	on.begin(t)
	for i, e := range way {
		if i == len(way)-1 {
			on.age(t)
		}
		if e.what <= gives {
			is, was := e.claim, s.claims[e.of]
			is.place, is.tombstone = was.place, was.tombstone
			s.claims[e.of] = is
		}
		what := fmt.Sprint(i)
		switch e.what {
		case asks:
			p.compare(what, r.acquire(s, e.of), acquire(t, on, e.of, e.claim), on.heard(t))
		case gives:
			p.compare(what, r.release(s, e.of), release(t, on, e.of, e.claim, p.fences[e.claim.fence]), on.heard(t))
		case forgets:
			s.seen = e.seen
			p.compare(what, r.forget(s), forget(t, on, e.seen.state, p.fences[e.seen.fence]), on.heard(t))
		default:
			if !on.fault(t, e) {
				return "", false
			}
			p.befalls(e)
		}
	}
	on.look(t, p)
	for _, strict := range []bool{true, false} {
		c := claim{atMostOnce: strict}
		s.claims[probe] = c
		p.compare("in the end", r.acquire(s, probe), acquire(t, on, probe, c), on.heard(t))
	}
	if len(p.wrong) == 0 {
		return "", true
	}
	var steps strings.Builder
	for i, e := range way {
		fmt.Fprintf(&steps, "%d: %d of %d: %+v\n", i, e.what, e.of, e.claim)
	}
	return steps.String() + strings.Join(p.wrong, "\n"), true
}

// befalls is a fault in the model.
func (p *play) befalls(e *event) {
	s := &p.state
	switch e.what {
	case dropsLock:
		s.holder = noOwner
	case dropsRecord:
		s.record = record{owner: noOwner}
	case leaves:
		s.claims[e.of].place = 0
	default:
		top := s.top
		*s = begin(budget{})
		s.top = top
	}
}

// ways are those of the bounds of the replay, each time in the same order.
var ways = sync.OnceValue(func() [][]*event {
	w := &watch{calls: map[uint64]bool{}}
	bounds := []budget{unanswered, {calls: 2, inputs: 1, silences: 1, losses: 1, forgets: 1}, {calls: 3, inputs: 1, waits: true}}
	if testing.Short() {
		bounds = bounds[:1]
	}
	for _, b := range bounds {
		protocol.Run(&rules{watch: w}, b)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	rnd.Shuffle(len(w.ways), func(i, j int) { w.ways[i], w.ways[j] = w.ways[j], w.ways[i] })
	if testing.Short() {
		return w.ways[:500]
	}
	return w.ways
})

func (c claim) once() *guardstore.Once {
	return &guardstore.Once{Keep: keep, Fingerprint: input(c.input), AtMostOnce: c.atMostOnce}
}

func acquire(t *testing.T, on place, o owner, c claim) reply {
	t.Helper()
	got, err := on.Acquire(t.Context(), guardstore.Claim{
		Key: modeltest.Key, Owner: name(o), TTL: ttl, Metadata: "of " + name(o), Queue: c.waits, Once: c.once(),
	})
	require.NoError(t, err)
	r := reply{said: said{claim: got.Status}, fence: got.Fence, earlier: got.Earlier}
	if is := got.Record; is != nil {
		r.record, r.fence, r.result = is.State, is.Fence, string(is.Result)
	}
	return r
}

func release(t *testing.T, on place, o owner, c claim, fence uint64) reply {
	t.Helper()
	out := &guardstore.Outcome{Once: *c.once(), State: c.outcome.writes(), Holder: "of " + name(o)}
	out.AtMostOnce = c.atMostOnce || c.outcome == never
	switch c.outcome {
	case kept:
		out.Result = []byte(resultOf(o))
	case unsure:
		out = nil
	default:
	}
	got, err := on.Release(t.Context(), guardstore.Release{Key: modeltest.Key, Owner: name(o), Fence: fence, TTL: ttl, Tombstone: c.inDoubt, Record: out})
	require.NoError(t, err)
	return reply{said: said{release: got.Status}}
}

func forget(t *testing.T, on place, state recordState, fence uint64) reply {
	t.Helper()
	got, err := on.Forget(t.Context(), guardstore.Forget{Key: modeltest.Key, RecordID: guardstore.RecordID{State: state, Fence: fence}})
	require.NoError(t, err)
	return reply{said: said{forget: got}}
}

// server is a Redis with the scripts.
type server struct {
	*redisstore.Store
	*modeltest.Server
}

const once = "redlatch:{k}:once"

func (s *server) begin(t *testing.T) {
	t.Helper()
	require.NoError(t, s.Put(t.Context(), time.Time{}, modeltest.Content{}))
}

func (s *server) heard(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(s.Messages(t), func(m string) bool { return strings.HasPrefix(m, "+") })
}

func (s *server) fault(t *testing.T, e *event) bool {
	t.Helper()
	ctx := t.Context()
	var err error
	switch e.what {
	case dropsLock:
		err = s.Client.Del(ctx, modeltest.Keys[0]).Err()
	case dropsRecord:
		err = s.Client.Del(ctx, once).Err()
	case leaves:
		err = errors.Join(s.Client.ZRem(ctx, modeltest.Keys[1], name(e.of)).Err(), s.Client.HDel(ctx, modeltest.Keys[3], name(e.of)).Err())
	default:
		err = s.Client.FlushAll(ctx).Err()
	}
	require.NoError(t, err)
	return true
}

func (s *server) age(t *testing.T) {
	t.Helper()
	require.NoError(t, s.Client.PExpire(t.Context(), once, aged).Err())
}

// look compares the record, and checks that each key has a ttl.
func (s *server) look(t *testing.T, p *play) {
	t.Helper()
	is, want := &p.state.record, ""
	got, err := s.Client.Get(t.Context(), once).Result()
	if err != nil {
		require.ErrorIs(t, err, redis.Nil)
	}
	words := strings.SplitN(got, " ", 8)
	if is.state != absent {
		owner, in := "-", "-"
		if is.owner != noOwner {
			owner = name(is.owner)
		}
		if is.input > 0 {
			in = input(is.input)
		}
		want = fmt.Sprint("1 ", [...]string{begun: "begun", done: "done", unkept: "unkept"}[is.state], " ", p.fences[is.fence], " ", p.fences[is.before], " ", owner, " ", in)
	}
	p.check("the record", want, strings.Join(words[:min(len(words), 6)], " "))
	for _, key := range append(slices.Clone(modeltest.Keys), once) {
		left, err := s.Client.PTTL(t.Context(), key).Result()
		require.NoError(t, err)
		p.check(key+" has a ttl", true, left == -2 || left > 0 && left <= keep+ttl)
		if key == once && is.state != absent && is.touched {
			p.check("the record lives", true, left > keep-time.Minute)
		} else if key == once && is.state != absent {
			p.check("the record lives no longer", true, left <= aged)
		}
	}
}

func storeOn(t *testing.T, s *modeltest.Server) *server {
	t.Helper()
	store := redisstore.New(s.Client, redisstore.Config{Prefix: "redlatch", AttemptTimeout: time.Minute})
	t.Cleanup(func() { _ = store.Close() })
	return &server{store, s}
}

func embedded(t *testing.T) *server { t.Helper(); return storeOn(t, modeltest.Embedded(t, owners+1)) }

// keeping goes a way while all rules are kept.
func keeping[P place](t *testing.T, on P, way []*event) string {
	t.Helper()
	wrong, _ := goes(t, on, &rules{}, way)
	return wrong
}

// TestReplay makes all calls.
func TestReplay(t *testing.T) {
	t.Parallel()
	modeltest.InShares(t, ways(), embedded, keeping)
}

// TestReplay_OnRedis is a sample of the replay on a redis-server.
func TestReplay_OnRedis(t *testing.T) {
	t.Parallel()
	s := storeOn(t, modeltest.Real(t, owners+1))
	for _, way := range ways()[:min(600, len(ways()))] {
		require.Empty(t, keeping(t, s, way), "script and model differ")
	}
}
