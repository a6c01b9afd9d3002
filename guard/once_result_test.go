package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// raw is an Encoding that copies nothing.
var raw = guard.Encoding(
	func(v any) ([]byte, error) { return v.([]byte), nil },
	func(data []byte, v any) error { *v.(*[]byte) = data; return nil },
)

// Callers of one process that get the result of one reply do not share its bytes.
func TestOnce_ResultIsTheCallersOwn(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		other, end := g.another(), make(chan struct{})
		first := begin(func() error {
			_, _, err := once(other, func(context.Context) ([]byte, error) { <-end; return []byte("receipt"), nil }, raw)
			return err
		})
		var waiting []chan error
		for range 8 {
			waiting = append(waiting, begin(func() error {
				got, replayed, err := once(g, noRun[[]byte](t), raw)
				assert.True(t, replayed)
				assert.Equal(t, "receipt", string(got))
				copy(got, "changed")
				return err
			}))
		}
		close(end)
		require.NoError(t, <-first)
		for _, w := range waiting {
			require.NoError(t, <-w)
		}
	})
}

// What a caller does with its result does not change what a release writes that is repeated.
func TestOnce_ResultIsRecordedAsItWasReturned(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		g.s.trouble(only("release", func(context.Context) error { return errDown }), nil)
		got, _, err := once(g, gives([]byte("receipt")), raw)
		require.NoError(t, err)
		copy(got, "changed")
		g.s.trouble(nil, nil)
		time.Sleep(time.Second) // the release is repeated
		got, replayed, err := once(g, noRun[[]byte](t), raw)
		require.NoError(t, err)
		assert.True(t, replayed)
		assert.Equal(t, "receipt", string(got))
	})
}

type (
	hidden  struct{ A, b int }
	dropped struct {
		A string `json:"-"`
	}
	tagged struct {
		List []int          `json:"list,omitempty"`
		Map  map[string]int `json:"map,omitempty"`
		At   time.Time
		Next *tagged `json:"next,omitempty"`
	}
	cents  struct{ n, exp int } // that means n·10^exp
	custom struct{ self *custom }
	key    string
)

func (c cents) Equal(other cents) bool {
	return float64(c.n)*math.Pow10(c.exp) == float64(other.n)*math.Pow10(other.exp)
}

func (c cents) MarshalJSON() ([]byte, error)     { return json.Marshal(float64(c.n) * math.Pow10(c.exp)) }
func (c *cents) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &c.n) }

func (custom) MarshalJSON() ([]byte, error)  { return []byte("1"), nil }
func (c *custom) UnmarshalJSON([]byte) error { c.self = c; return nil }

// later runs a first and a later call of Once with one value.
func later[T any](t *testing.T, v T) (kept T, why error) {
	t.Helper()
	bubble(t, func(t *testing.T, g *env) {
		got, _, err := once(g, gives(v))
		require.NoError(t, err)
		assert.Equal(t, v, got, "the first caller has what its work returned")
		kept, _, err = once(g, noRun[T](t))
		if err == nil {
			return
		}
		require.ErrorIs(t, err, guard.ErrNotKept)
		events := g.r.Events(guard.EventNotKept)
		require.Len(t, events, 2)
		why = events[0].Err
	})
	return kept, why
}

// A result that JSON would change is not kept. The event says where, and no value.
func TestOnce_ResultThatJSONChangesIsNotKept(t *testing.T) {
	cycle := &custom{}
	cycle.self = cycle
	notKept := func(want string, why error) {
		t.Helper()
		require.Error(t, why, want)
		assert.Equal(t, `guard: once: the work was done, its result was not kept: `+want, why.Error())
	}
	_, why := later(t, hidden{1, 2})
	notKept("JSON does not give it back: guard_test.hidden.b differs", why)
	_, why = later(t, []map[string]*hidden{{"secret": {1, 2}}})
	notKept("JSON does not give it back: []map[string]*guard_test.hidden[0][…].b differs", why)
	_, why = later(t, dropped{"a"})
	notKept("JSON does not give it back: guard_test.dropped.A differs", why)
	_, why = later(t, map[string]any{"id": int64(1)<<53 + 1})
	notKept("JSON does not give it back: map[string]interface {}[…] differs", why)
	_, why = later[any](t, uint64(math.MaxUint64))
	notKept("JSON does not give it back: uint64 differs", why)
	_, why = later(t, "a\xffb")
	notKept("JSON does not give it back: string differs", why)
	_, why = later(t, map[string]int{"a\xffb": 1})
	notKept("JSON does not give it back: map[string]int[…] differs", why)
	_, why = later[any](t, hidden{1, 0})
	notKept("JSON does not give it back: guard_test.hidden differs", why)
	_, why = later[any](t, []any{time.Now()})
	notKept("JSON does not give it back: []interface {}[0] differs", why)
	_, why = later(t, struct{ F func() }{})
	notKept("json: unsupported type: func()", why)
	_, why = later(t, json.RawMessage(`{"a": 1}`))
	notKept("JSON does not give it back: json.RawMessage differs", why)
	_, why = later(t, cents{5, -1})
	notKept("decode it: json: cannot unmarshal number 0.5 into Go value of type int", why)
	_, why = later(t, custom{})
	notKept("JSON does not give it back: guard_test.custom.self differs", why)
	_, why = later(t, *cycle)
	require.ErrorContains(t, why, "JSON does not give it back: guard_test.custom.self.self")
}

// What JSON gives back as it was, or as encoding/json documents it, is kept.
func TestOnce_ResultThatJSONGivesBackIsKept(t *testing.T) {
	keeps := func(_ any, why error) { t.Helper(); require.NoError(t, why) }
	keeps(later(t, struct{}{}))
	keeps(later(t, hidden{A: 1}))
	keeps(later(t, int64(1)<<60+1))
	keeps(later(t, math.MaxFloat64))
	keeps(later(t, []byte{0, 255}))
	keeps(later(t, [2]bool{true, false}))
	keeps(later(t, map[int]*int{1: new(int), 2: nil}))
	keeps(later[error](t, nil))
	keeps(later(t, tagged{List: []int{}, Map: map[string]int{}, At: time.Now(), Next: &tagged{At: time.Now().UTC()}}))
	keeps(later(t, cents{50, 1}))
	keeps(later(t, struct{ Price float32 }{0.1}))
	kept, why := later[any](t, map[string]any{
		"int": 42, "uint": uint8(7), "float": float32(0.1), "list": []string{"a"}, "none": []int(nil), "map": map[key]int{"k": 1}, "nil": (*int)(nil), "yes": true,
	})
	require.NoError(t, why)
	assert.InDelta(t, 42, kept.(map[string]any)["int"], 0)
}

// An encoder, or an Observer, that panics after a success does not make the outcome unknown.
func TestOnce_PanicAfterSuccessIsNotUnknown(t *testing.T) {
	large := guard.MaxResult(1)
	encoder := guard.Encoding(func(any) ([]byte, error) { panic("boom") }, json.Unmarshal)
	leaves := guard.Encoding(func(any) ([]byte, error) { runtime.Goexit(); return nil, nil }, json.Unmarshal)
	for what, opts := range map[string][]guard.OnceOption{"encoder": {encoder}, "Goexit": {leaves}, "observer": {large}} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *env) {
				apart(func() {
					_, _, _ = once(g, gives(100), append(slices.Clone(opts), guard.AtMostOnce())...)
				})
				other := g.another()
				other.refuses(guard.ErrNotKept, guard.AtMostOnce())
				other.free(other.take())
			}, guard.Observe(&panicking{kind: guard.EventNotKept}))
		})
	}
}

// panicking is an Observer that panics at a kind of event.
type panicking struct {
	guard.NopObserver
	kind guard.EventKind
}

func (p *panicking) Event(_ context.Context, _ guard.Lock, e guard.Event) {
	if e.Kind == p.kind {
		panic("boom")
	}
}

// A record that a caller cannot decode is no replay.
func TestOnce_UndecodableRecordIsNotObservedAsReplayed(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		other := g.another()
		_, _, err := once(other, gives("text"))
		require.NoError(t, err)
		v, replayed, err := once(g, noRun[int](t))
		require.ErrorIs(t, err, guard.ErrNotKept)
		assert.False(t, replayed)
		assert.Zero(t, v)
		assert.Empty(t, g.r.Events(guard.EventReplayed))
		events := g.r.Events(guard.EventNotKept)
		require.Len(t, events, 1)
		assert.Equal(t, err, events[0].Err)
		waits := g.r.Observations("WaitEnd")
		assert.Equal(t, err, waits[0].Wait.Err)
		half := guard.Encoding(json.Marshal, func(_ []byte, v any) error { *v.(*string) = "half"; return errors.New("the rest is missing") })
		text, _, err := once(g, noRun[string](t), half)
		require.ErrorIs(t, err, guard.ErrNotKept)
		assert.Empty(t, text, "no half of a result is returned")
	})
}

// Work that takes longer than keep, and whose end is not known, is not forgotten before keep has passed from its end.
func TestOnce_KeepCountsFromTheEnd(t *testing.T) {
	const keep = time.Second
	for name, end := range map[string]func(g *env, ctx context.Context, cancel func()) error{
		"panic":   func(*env, context.Context, func()) error { panic("boom") },
		"context": func(_ *env, _ context.Context, cancel func()) error { cancel(); return errBoom },
		"crash": func(g *env, ctx context.Context, _ func()) error {
			g.s.Fail(errDown) // for this process, until the lease is over
			<-ctx.Done()
			time.Sleep(350 * time.Millisecond) // a tenth of the ttl, and some
			return errBoom
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *env) {
				call := func(ctx context.Context, fn func(context.Context) (int, error)) (int, bool, error) {
					return guard.Once(ctx, g.Guard, k, keep, fn, guard.AtMostOnce(), guard.TTL(3*time.Second))
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				apart(func() {
					_, _, _ = call(ctx, func(ctx context.Context) (int, error) {
						time.Sleep(20 * keep)
						return 1, end(g, ctx, cancel)
					})
				})
				g.s.Fail(nil)
				time.Sleep(keep * 9 / 10)
				_, _, err := call(t.Context(), noRun[int](t))
				require.ErrorIs(t, err, guard.ErrUnknownOutcome)
				time.Sleep(3*time.Second + keep/5) // the lease of a crash ends first
				v, replayed, err := call(t.Context(), gives(2))
				require.NoError(t, err)
				assert.Equal(t, 2, v)
				assert.False(t, replayed)
			})
		})
	}
}

// Forget whose reply was lost is sent again. It does not delete the record that a call made meanwhile.
func TestForget_ThatIsSentAgainLeavesANewerRecord(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		_, _, err := guard.Once(t.Context(), g.Guard, k, time.Hour, gives(1), guard.MaxResult(1), guard.Encoding(
			func(any) ([]byte, error) { return []byte("too large"), nil }, json.Unmarshal))
		require.NoError(t, err)
		store := &forgetful{Store: g.s.Store, meanwhile: func() { g.another().runs(2) }}
		operator, err := guard.NewWithStore(store)
		require.NoError(t, err)
		forgotten, err := operator.Forget(t.Context(), k)
		require.NoError(t, err)
		assert.True(t, forgotten)
		g.replays(2)
		require.NoError(t, operator.Close())
	})
}

// forgetful loses the first reply to Forget, and has something happen then.
type forgetful struct {
	*guardtest.Store
	meanwhile func()
}

func (f *forgetful) Forget(ctx context.Context, r guardstore.Forget) (guardstore.ForgetStatus, error) {
	status, err := f.Store.Forget(ctx, r)
	if f.meanwhile != nil {
		f.meanwhile()
		f.meanwhile = nil
		return 0, errReply
	}
	return status, err
}
