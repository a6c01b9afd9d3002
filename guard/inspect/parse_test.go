package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

// The tests in package inspect are of replies, without a server. Those in package inspect_test are on one.

const (
	oneID   = "0123456789abcdef"
	one     = oneID + "-1"
	two     = "fedcba9876543210-2"
	minimal = "1 7 0 - " // a hold
)

// look is what the script look replies.
type look struct {
	kind                    string
	left                    int64
	fields, waiting, record any
	last                    string
	queued                  int64
}

// reply has 1,000.5 s on the server's clock.
func (l look) reply() []any {
	return []any{"1000", "500000", l.kind, l.left, l.fields, l.last, l.queued, l.waiting, l.record}
}

func seconds(s float64) time.Time { return time.UnixMicro(int64(s * 1e6)) }

func hash(pairs ...any) look { return look{kind: "hash", fields: pairs} }

func TestParse_Holders(t *testing.T) {
	t.Parallel()
	type holders = []Holder
	alone := Holder{Instance: oneID, Fence: 7, Depth: 1, Limit: 1, Since: seconds(0.000007)}
	lasting := hash(one, "2 900000000 0 - a note")
	lasting.left = 1500
	endless := hash(one, minimal)
	endless.left = -1
	several := []any{"@fence", "950000000", one + ".", "1 900000000 101000 - ", "0123456789abcdef-3.1", "1 800000000 200600 - x", two, "1 700000000 300500 - "}
	for name, c := range map[string]struct {
		look look
		want holders
	}{
		"one":                       {lasting, holders{{Instance: oneID, Metadata: "a note", Fence: 9e8, Depth: 2, Limit: 1, Since: seconds(900), Left: 1500 * time.Millisecond}}},
		"without an end":            {endless, holders{alone}},
		"by its name":               {look{kind: "hash", fields: map[any]any{one: minimal}}, holders{alone}},
		"half a pair":               {hash(one, minimal, two), holders{alone}},
		"a short id":                {hash("12345678-1", minimal), holders{{Instance: "12345678", Fence: 7, Depth: 1, Limit: 1, Since: alone.Since}}},
		"only kept":                 {hash(one, "0 7 0 - "), holders{{Instance: oneID, Fence: 7, Limit: 1, Since: alone.Since}}},
		"revoked, ahead":            {hash(one, "1 2000000000 0 a999000000r "), holders{{Instance: oneID, Fence: 2e9, Depth: 1, Limit: 1, Since: seconds(999), Revoked: true}}},
		"at this instant":           {hash(one, "1 1000500000 0 - "), holders{{Instance: oneID, Fence: 1000500000, Depth: 1, Limit: 1, Since: seconds(1000.5)}}},
		"later":                     {hash(one, "1 1000500001 0 - "), holders{{Instance: oneID, Fence: 1000500001, Depth: 1, Limit: 1}}},
		"several, and all are over": {hash("@fence", "9", one, "1 7 1000499 - "), nil},
		"several": {hash(slices.Concat(several, []any{"0123456789abcdef-2.0", "1 850000000 1150000 - "})...), holders{
			{Instance: oneID, Metadata: "x", Fence: 8e8, Depth: 1, Limit: 3, Since: seconds(800), Left: 100 * time.Millisecond},
			{Instance: oneID, Fence: 85e7, Depth: 1, Limit: 2, Since: seconds(850), Left: 999500 * time.Millisecond},
			{Instance: oneID, Fence: 9e8, Depth: 1, Limit: 1, Since: seconds(900), Left: 500 * time.Millisecond},
		}},
		"none": {look{kind: "none"}, nil},
	} {
		for range 5 { // fields have no order
			info, err := parseLook("k", c.look.reply())
			require.NoError(t, err, name)
			assert.Equal(t, Info{Key: "k", Now: seconds(1000.5), Holders: c.want, LastFence: info.LastFence}, info, name)
		}
	}
	for owner, want := range map[string]int{one: 1, oneID + "-4.1": 4, oneID + "-0.12": 0, oneID + "-.1": 1} {
		assert.Equal(t, want, limitOf(owner), owner)
	}
}

func TestParse_LastFenceIsTheHighest(t *testing.T) {
	t.Parallel()
	for last, want := range map[string]uint64{"": 7, "6": 7, "8": 8, "9007199254740992": 7, "none": 7} {
		l := hash(one, minimal)
		l.last = last
		info, err := parseLook("k", l.reply())
		require.NoError(t, err)
		assert.Equal(t, want, info.LastFence, last)
	}
}

func TestParse_RefusesOtherValues(t *testing.T) {
	t.Parallel()
	const noOwners, noOwner, noRecord = "its hash has a field that is no owner's", "its hash has no owner", "its record was not written by a Guard"
	recorded := func(of ...any) []any { return look{kind: "none", record: of}.reply() }
	for name, c := range map[string]struct {
		reply any
		want  string
	}{
		"of another type":  {look{kind: "string"}.reply(), "it is a string, and not a hash"},
		"no list":          {"text", "unexpected reply of type string"},
		"a short list":     {[]any{"1000", "500000"}, "unexpected reply of type []interface {}"},
		"no hold":          {hash(one, "1 7").reply(), noOwners},
		"fence 0":          {hash(one, "1 0 0 - ").reply(), noOwners},
		"a short id":       {hash("1234567-1", minimal).reply(), noOwners},
		"no number":        {hash(oneID+"-", minimal).reply(), noOwners},
		"two owners":       {hash(one, minimal, two, "1 8 0 - ").reply(), noOwners},
		"no fields":        {hash().reply(), noOwner},
		"a fence only":     {hash("@fence", "7").reply(), noOwner},
		"no record":        {recorded(""), noRecord},
		"a record's state": {recorded("x", "7", one, "9", "", int64(0), int64(1), int64(0)), noRecord},
		"a record's fence": {recorded("done", "0", one, "9", "", int64(0), int64(1), int64(0)), noRecord},
		"a record's owner": {recorded("done", "7", "secret", "9", "", int64(0), int64(1), int64(0)), noRecord},
	} {
		info, err := parseLook("k", c.reply)
		assert.Equal(t, &FormatError{Key: "k", Reason: c.want}, err, name)
		assert.Equal(t, Info{Key: "k"}, info, name)
	}
}

func TestParse_Waiting(t *testing.T) {
	t.Parallel()
	list := []any{
		two + ".", "800000000", "1000400000-",
		one, "700000000", "",
		oneID + "-5.1", "750000000", "0",
		two, "half of one",
	}
	want := []Waiter{
		{Instance: oneID, Since: seconds(700), Limit: 1, Front: true},
		{Instance: oneID, Since: seconds(750), Limit: 5},
		{Instance: "fedcba9876543210", Since: seconds(800), Asked: seconds(1000.4), Limit: 2},
	}
	info, err := parseLook("k", look{kind: "none", queued: 3, waiting: list}.reply())
	require.NoError(t, err)
	assert.Equal(t, Info{Key: "k", Now: seconds(1000.5), Waiting: want, Queued: 3}, info)

	for n := range 120 {
		list = append([]any{one, fmt.Sprint(900000000 + n), ""}, list...)
	}
	waiting := parseWaiting(list)
	require.Len(t, waiting, mostWaiting)
	assert.Equal(t, want[0], waiting[0])
	assert.Equal(t, seconds(900.000096), waiting[99].Since)
}

// The record of work that never finished, and whose owner is not known any more. It has no end.
func TestParse_RecordWithoutAnOwner(t *testing.T) {
	t.Parallel()
	info, err := parseLook("k", look{kind: "none", record: []any{"begun", "7", forgotten, "900000000", "m", int64(0), int64(-1), int64(0)}}.reply())
	require.NoError(t, err)
	assert.Equal(t, &Record{State: RecordUnfinished, Fence: 7, Since: seconds(900), Metadata: "m"}, info.Record)
}

func TestErrors_SayWhatFailed(t *testing.T) {
	t.Parallel()
	wrongType, down := errors.New("WRONGTYPE Operation"), errors.New("down")
	err := failed("revoke", "k", wrongType)
	assert.Equal(t, &FormatError{Key: "k", Reason: "a Redis key of it is of another type", Err: wrongType}, err)
	require.ErrorIs(t, err, wrongType)
	require.ErrorIs(t, err, ErrFormat)
	require.EqualError(t, err, "inspect: not a lock: a Redis key of it is of another type")
	assert.Equal(t, "lock_format_invalid", err.(interface{ ErrorType() string }).ErrorType())
	assert.Equal(t, &guard.StoreError{Op: "revoke", Key: "k", Err: down}, failed("revoke", "k", down))
	require.NoError(t, checkKey(strings.Repeat("k", guard.MaxKeyLength)))
}

var (
	errNoClient = &guard.OptionError{Option: "client", Reason: "is nil"}
	errNotMade  = &guard.OptionError{Option: "Inspector", Reason: "was not made by New"}
)

func TestNew_KeepsTheFirstError(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	assert.Equal(t, errNoClient, New((*redis.Client)(nil), Prefix("shop"), Prefix("")).made())
	require.NoError(t, New(struct{ redis.UniversalClient }{client}).made(), "a client of the user's own")
	require.EqualError(t, New(client, Prefix("a{b"), Prefix("shop")).made(), `guard: Prefix "a{b" must be UTF-8, not empty and without braces`)
}
