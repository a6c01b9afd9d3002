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
)

// raw is an Encoding that copies nothing.
var raw = guard.Encoding(
	func(v any) ([]byte, error) { return v.([]byte), nil },
	func(data []byte, v any) error { *v.(*[]byte) = data; return nil },
)

// Callers of one process that get the result of one reply do not share its bytes.
func TestOnce_ResultIsTheCallersOwn(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		end := make(chan struct{})
		first := begin(func() error {
			_, _, err := once(g.another(), func(context.Context) ([]byte, error) { <-end; return []byte("receipt"), nil }, raw)
			return err
		})
		replay := func() error {
			got, replayed, err := once(g, noRun[[]byte](t), raw)
			assert.True(t, replayed)
			assert.Equal(t, "receipt", string(got))
			copy(got, "changed")
			return err
		}
		second, third := begin(replay), begin(replay)
		close(end)
		for _, ended := range []chan error{first, second, third} {
			require.NoError(t, <-ended)
		}
	})
}

// What a caller does with its result does not change what a release writes that is repeated.
func TestOnce_ResultIsRecordedAsItWasReturned(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		g.s.Trouble(only("release", func(context.Context) error { return errDown }), nil)
		got, _, err := once(g, gives([]byte("receipt")), raw)
		require.NoError(t, err)
		copy(got, "changed")
		g.s.Trouble(nil, nil)
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

// listed is a map whose JSON is a list.
type listed map[int]int

func (listed) MarshalJSON() ([]byte, error) { return []byte("[1]"), nil }

// worded is a number whose JSON is a text.
type worded float32

func (worded) MarshalJSON() ([]byte, error) { return []byte(`"1"`), nil }

// opposite is a truth value whose JSON is the other one.
type opposite bool

func (o opposite) MarshalJSON() ([]byte, error) { return json.Marshal(!bool(o)) }

// equalsNumber has an Equal that returns a number, equalsAlone one without an argument.
type (
	equalsNumber struct{ N int }
	equalsAlone  struct{ N int }
)

func (equalsNumber) Equal(equalsNumber) int { return 0 }
func (equalsAlone) Equal() bool             { return false }

// spelled is a number whose JSON is a text, summed a list whose JSON is a number.
type (
	spelled int
	summed  []int
)

func (spelled) MarshalJSON() ([]byte, error) { return []byte(`"one"`), nil }
func (summed) MarshalJSON() ([]byte, error)  { return []byte("3"), nil }

// widened is a map to which the decoder adds a key.
type widened map[string]int

func (w *widened) UnmarshalJSON(data []byte) error {
	*w = widened{"more": 1}
	return json.Unmarshal(data, (*map[string]int)(w))
}

// sure is a truth value whose JSON is a number.
type sure bool

func (sure) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

// rounded is a number whose JSON is another number.
type rounded float32

func (r rounded) MarshalJSON() ([]byte, error) { return json.Marshal(int(r)) }

// counted is a number whose JSON is 1.
type counted float64

func (counted) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

// inside has a value with an Equal where JSON does not see it, and reflection may not call it.
type inside struct{ cents cents }

// signaled has a channel that JSON does not see.
type signaled struct {
	C chan int `json:"-"`
}

// UnmarshalJSON makes a channel that the value had not.
func (s *signaled) UnmarshalJSON([]byte) error { s.C = make(chan int); return nil }

// nulled is a list whose JSON is null.
type nulled []int

func (nulled) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// equalsNothing has an Equal that returns nothing.
type equalsNothing struct{ N int }

func (equalsNothing) Equal(equalsNothing) {}

// equalsInt has an Equal that is not for values of its own type.
type equalsInt struct{ N int }

func (c equalsInt) Equal(n int) bool { return c.N == n }

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

// notKept checks why a result is not kept.
func notKept[T any](t *testing.T, want string, v T) {
	t.Helper()
	_, why := later(t, v)
	require.EqualError(t, why, `guard: once: the work was done, its result was not kept: `+want)
}

// A result that JSON would change is not kept. The event says where, and no value.
func TestOnce_ResultThatJSONChangesIsNotKept(t *testing.T) {
	cycle := &custom{}
	cycle.self = cycle
	notKept(t, "JSON does not give it back: guard_test.hidden.b differs", hidden{1, 2})
	notKept(t, "JSON does not give it back: []map[string]*guard_test.hidden[0][…].b differs", []map[string]*hidden{{"secret": {1, 2}}})
	notKept(t, "JSON does not give it back: guard_test.dropped.A differs", dropped{"a"})
	notKept(t, "JSON does not give it back: map[string]interface {}[…] differs", map[string]any{"id": int64(1)<<53 + 1})
	notKept[any](t, "JSON does not give it back: uint64 differs", uint64(math.MaxUint64))
	notKept(t, "JSON does not give it back: string differs", "a\xffb")
	notKept(t, "JSON does not give it back: map[string]int[…] differs", map[string]int{"a\xffb": 1})
	notKept[any](t, "JSON does not give it back: guard_test.hidden differs", hidden{1, 0})
	notKept[any](t, "JSON does not give it back: []interface {}[0] differs", []any{time.Now()})
	notKept(t, "json: unsupported type: func()", struct{ F func() }{})
	notKept(t, "JSON does not give it back: json.RawMessage differs", json.RawMessage(`{"a": 1}`))
	notKept(t, "decode it: json: cannot unmarshal number 0.5 into Go value of type int", cents{5, -1})
	notKept(t, "JSON does not give it back: guard_test.custom.self differs", custom{})
	notKept(t, "JSON does not give it back: map[string]*int[…] differs", map[string]*int{"a\xffb": nil})
	notKept[any](t, "JSON does not give it back: guard_test.listed differs", listed{1: 2})
	notKept[any](t, "JSON does not give it back: guard_test.nulled differs", nulled{1})
	notKept[any](t, "JSON does not give it back: guard_test.worded differs", worded(1))
	notKept(t, "JSON does not give it back: guard_test.opposite differs", opposite(true))
	notKept[any](t, "JSON does not give it back: guard_test.sure differs", sure(true))
	notKept(t, "JSON does not give it back: guard_test.widened differs", widened{"a": 1})
	notKept[any](t, "JSON does not give it back: guard_test.spelled differs", spelled(1))
	notKept[any](t, "JSON does not give it back: guard_test.summed differs", summed{1, 2})
	notKept(t, "JSON does not give it back: map[string]int differs", map[string]int{"a\xffb": 1, "a\ufffdb": 1})
	notKept[any](t, "JSON does not give it back: guard_test.rounded differs", rounded(1.5))
	for _, v := range []signaled{{make(chan int)}, {}} {
		notKept(t, "JSON does not give it back: guard_test.signaled.C differs", v)
	}
	notKept(t, "JSON does not give it back: guard_test.inside.cents.n differs", inside{cents{1, 1}})
	bubble(t, func(t *testing.T, g *env) {
		_, _, err := once(g, gives[any](counted(math.NaN())))
		require.NoError(t, err)
		assert.ErrorContains(t, g.r.Events(guard.EventNotKept)[0].Err, "guard_test.counted differs")
	})
	_, why := later(t, *cycle)
	require.ErrorContains(t, why, "JSON does not give it back: guard_test.custom.self.self")
}

// A result as long as MaxResult allows is compared, too.
func TestOnce_LongestResultThatJSONChangesIsNotKept(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		v := "a\xffb"
		encoded, err := json.Marshal(v)
		require.NoError(t, err)
		_, _, err = once(g, gives(v), guard.MaxResult(len(encoded)))
		require.NoError(t, err)
		g.refuses(guard.ErrNotKept)
	})
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
	keeps(later(t, equalsInt{7}))
	keeps(later(t, equalsNothing{7}))
	keeps(later(t, equalsNumber{7}))
	keeps(later(t, equalsAlone{7}))
	keeps(later(t, struct {
		C chan int `json:"-"`
	}{}))
	keeps(later(t, struct {
		F func() `json:"-"`
	}{}))
	keeps(later(t, struct{ Price float32 }{0.1}))
	kept, why := later[any](t, map[string]any{
		"int": 42, "uint": uint8(7), "float": float32(0.1), "list": []string{"a"}, "none": []int(nil), "map": map[key]int{"k": 1}, "nil": (*int)(nil), "no map": map[key]int(nil), "yes": true,
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
			o := &faulty{method: guard.EventNotKept.String(), fault: func() { panic("boom") }}
			o.n.Store(1)
			bubble(t, func(t *testing.T, g *env) {
				apart(func() {
					_, _, _ = once(g, gives(100), append(slices.Clone(opts), guard.AtMostOnce())...)
				})
				other := g.another()
				other.refuses(guard.ErrNotKept, guard.AtMostOnce())
				other.free(other.take())
			}, guard.Observe(o))
		})
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
		assert.Contains(t, err.Error(), "decode it")
		assert.Equal(t, []guard.Event{{Kind: guard.EventNotKept, Op: "acquire", Err: err}}, g.r.Events(guard.EventNotKept))
		assert.Empty(t, g.r.Events(guard.EventReplayed))
		assert.Equal(t, err, g.r.Observations("WaitEnd")[0].Wait.Err)
		half := guard.Encoding(json.Marshal, func(_ []byte, v any) error { *v.(*string) = "half"; return errors.New("the rest is missing") })
		text, _, err := once(g, noRun[string](t), half)
		require.ErrorIs(t, err, guard.ErrNotKept)
		assert.Empty(t, text, "no half of a result is returned")
	})
}

// Forget whose reply was lost is sent again. It does not delete the record that a call made meanwhile.
// The record that Forget found is gone by the time that it is to be deleted.
func TestForget_OfARecordThatIsGone(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		other := g.another()
		other.runs(1)
		g.s.Trouble(times(1, "forget", "k", func() error {
			deleted, err := other.Forget(t.Context(), k)
			assert.True(t, deleted)
			return err
		}), nil)
		deleted, err := g.Forget(t.Context(), k)
		require.NoError(t, err)
		assert.False(t, deleted)
		require.NoError(t, g.Shutdown(t.Context()), "nothing is under way")
	})
}

func TestForget_ThatIsSentAgainLeavesANewerRecord(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		other := g.another()
		other.runs(1)
		g.s.Trouble(nil, times(1, "forget", "k", func() error { other.runs(2); return errReply }))
		forgotten, err := g.Forget(t.Context(), k)
		require.NoError(t, err)
		assert.True(t, forgotten)
		other.replays(2)
	})
}
