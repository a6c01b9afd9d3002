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

	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
)

// The replay goes the shortest way to each kind of call that the search comes upon: the commands
// and faults that lead there, on the scripts and on the store in memory. Each answer has to be that
// of the model, and so has what a further claim gets in the end.

const (
	ttl  = 30 * time.Second
	keep = time.Hour
	aged = 10 * time.Minute // the ttl of a record before the last call
)

// place is where commands are sent. An answer's fences are those of the place.
type place interface {
	begin(t *testing.T)
	acquire(t *testing.T, o owner, c claim) reply
	release(t *testing.T, o owner, c claim, fence uint64) reply
	forget(t *testing.T, state recordState, fence uint64) reply
	fault(t *testing.T, e *event) bool // false: it cannot be brought about
	age(t *testing.T)                  // before the last call
	look(t *testing.T, p *play)
}

// reply is an answer with the fences of a place.
type reply struct {
	kind           kind
	fence, earlier uint64
	result         string
	notified       []string
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
func (p *play) compare(what string, want answer, got reply) {
	p.check(what+" says", want.kind, got.kind)
	if _, known := p.fences[want.fence]; want.kind == replyHeld && !known {
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
	slices.Sort(got.notified)
	p.check(what+" tells", notified, got.notified)
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
			p.compare(what, r.acquire(s, e.of), on.acquire(t, e.of, e.claim))
		case gives:
			p.compare(what, r.release(s, e.of), on.release(t, e.of, e.claim, p.fences[e.claim.fence]))
		case forgets:
			s.seen = e.seen
			p.compare(what, r.forget(s), on.forget(t, e.seen.state, p.fences[e.seen.fence]))
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
		p.compare("in the end", r.acquire(s, probe), on.acquire(t, probe, c))
	}
	if len(p.wrong) == 0 {
		return "", true
	}
	var notified strings.Builder
	for i, e := range way {
		fmt.Fprintf(&notified, "%d: %d of %d: %+v\n", i, e.what, e.of, e.claim)
	}
	return notified.String() + strings.Join(p.wrong, "\n"), true
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
	w := &watch{calls: map[call]struct{}{}}
	bounds := []budget{unanswered, {calls: 2, inputs: 1, silences: 1, losses: 1, forgets: 1}, {calls: 3, inputs: 1, waits: true}}
	if modeltest.Quick() {
		bounds = bounds[:1]
	}
	for _, b := range bounds {
		protocol.Run(&rules{watch: w}, b)
	}
	for _, way := range slices.Clone(w.ways) {
		w.ways = append(w.ways, withoutInput(way)...)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	rnd.Shuffle(len(w.ways), func(i, j int) { w.ways[i], w.ways[j] = w.ways[j], w.ways[i] })
	if modeltest.Quick() {
		return w.ways[:500]
	}
	return w.ways
})

// withoutInput is a way in which those with the second input have none, if there are any.
func withoutInput(way []*event) (ways [][]*event) {
	is, other := make([]*event, len(way)), false
	for i, e := range way {
		n := *e
		if n.claim.input == 2 {
			n.claim.input, other = 0, true
		}
		is[i] = &n
	}
	if other {
		ways = append(ways, is)
	}
	return ways
}

// server is a Redis with the scripts.
type server struct {
	*modeltest.Server

	at time.Time
}

const once = "redlatch:{k}:once"

func keys() []string { return append(slices.Clone(modeltest.Keys), once) }

func (s *server) begin(t *testing.T) {
	t.Helper()
	require.NoError(t, s.Put(t.Context(), modeltest.Content{}))
	s.tick()
}

// tick has each command run at a time of its own.
func (s *server) tick() {
	if s.at = s.at.Add(time.Millisecond); s.Embed != nil {
		s.Embed.SetTime(s.at)
	}
}

// eval runs a script. An error is an answer that no model gives.
func (s *server) eval(t *testing.T, script string, keys []string, args ...any) (any, []string) {
	t.Helper()
	s.tick()
	s.Messages(t)
	got, err := s.Client.EvalSha(t.Context(), s.Scripts[script], keys, args...).Result()
	if err != nil {
		got = err
	}
	if replies, many := got.([]any); many && len(replies) == 1 {
		got = replies[0]
	}
	notified := slices.DeleteFunc(s.Messages(t), func(m string) bool { return strings.HasPrefix(m, "+") })
	return got, notified
}

const unexpected = kind(255)

func onceArgs(c claim) []any {
	strict, in := 0, input(c.input)
	if c.atMostOnce {
		strict = 1
	}
	if in == "" {
		in = "-"
	}
	return []any{in, keep.Milliseconds(), strict}
}

func (s *server) acquire(t *testing.T, o owner, c claim) reply {
	t.Helper()
	wants := "-"
	if c.waits {
		wants = "0"
	}
	got, notified := s.eval(t, "acquire", keys(), append([]any{"1c:", name(o), ttl.Milliseconds(), "of " + name(o), wants}, onceArgs(c)...)...)
	words := strings.SplitN(fmt.Sprint(got), " ", 5)
	r := reply{notified: notified}
	switch words[0] {
	case "ended":
		r.kind = replyFinished
	case "busy":
		r.kind = replyBusy
	case "held":
		r.kind = replyHeld
		_, _ = fmt.Sscan(words[1], &r.fence)
		_, _ = fmt.Sscan(words[3], &r.earlier)
	case "recorded":
		r.kind = map[string]kind{"other": replyOther, "begun": replyBegun, "done": replyDone, "unkept": replyUnkept}[words[1]]
		_, _ = fmt.Sscan(words[2], &r.fence)
		if r.kind == replyDone {
			r.result = resultIn(words[4])
		}
	default:
		r = reply{kind: unexpected, notified: notified, result: fmt.Sprint(got)}
	}
	return r
}

// resultIn cuts the metadata off the end of a record.
func resultIn(rest string) string {
	length, text, _ := strings.Cut(rest, " ")
	var n int
	if _, err := fmt.Sscan(length, &n); err != nil || n > len(text) {
		return rest
	}
	return text[n:]
}

func (s *server) release(t *testing.T, o owner, c claim, fence uint64) reply {
	t.Helper()
	doubt := "-"
	if c.inDoubt {
		doubt = "t"
	}
	result := ""
	if c.outcome == kept {
		result = resultOf(o)
	}
	words := [...]string{never: "failed", failed: "failed", kept: "done", tooLong: "unkept"}
	names, args := keys(), []any{"1c:", name(o), fmt.Sprint(fence, " 0 ", doubt)}
	if c.outcome == unsure {
		names = modeltest.Keys
	} else {
		c.atMostOnce = c.atMostOnce || c.outcome == never
		args = append(append(append(args, words[c.outcome]), onceArgs(c)...), "of "+name(o), result)
	}
	got, notified := s.eval(t, "release", names, args...)
	of, known := map[any]kind{"lost": replyNotHeld, "released": replyReleased}[got]
	if !known {
		return reply{kind: unexpected, result: fmt.Sprint(got)}
	}
	return reply{kind: of, notified: notified}
}

func (s *server) forget(t *testing.T, state recordState, fence uint64) reply {
	t.Helper()
	got, notified := s.eval(t, "forget", []string{modeltest.Keys[0], once}, [...]string{begun: "begun", done: "done", unkept: "unkept"}[state], fence)
	of, known := map[any]kind{int64(0): replyNothingThere, int64(1): replyForgotten, int64(2): replyBusy}[got]
	if !known {
		return reply{kind: unexpected, result: fmt.Sprint(got)}
	}
	return reply{kind: of, notified: notified}
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
	for _, key := range keys() {
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

func embedded(t *testing.T) *server {
	t.Helper()
	return &server{Server: modeltest.Embedded(t, owners+1), at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

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
	s := &server{Server: modeltest.Real(t, owners+1)}
	for _, way := range ways()[:min(600, len(ways()))] {
		require.Empty(t, keeping(t, s, way), "script and model differ")
	}
}
