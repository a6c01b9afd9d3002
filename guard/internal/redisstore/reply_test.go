package redisstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

type list = []any

// A reply to a claim, each of its values counts. With one value of another kind it is no reply.
func TestReply_ToAClaim(t *testing.T) {
	t.Parallel()
	busy := guardstore.ClaimReply{Status: guardstore.ClaimBusy, Remaining: time.Second, Holder: "me", Ticket: 7, Ahead: 3, Limit: 2, Done: true}
	whole := list{int64(1000), "me", "7", int64(3), int64(2), int64(1)}
	exclusive, forever, expired := busy, busy, busy
	exclusive.Limit, forever.Remaining, expired.Remaining = guardstore.Exclusive, clock.Forever, 0
	for _, row := range []struct {
		reply any
		want  guardstore.ClaimReply
	}{
		{"17", guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: 17}},
		{"-17", guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: 17, FenceAhead: true}},
		{redisconn.BatchReply(17), guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: 17}},
		{int64(0), guardstore.ClaimReply{Status: guardstore.ClaimFinished}},
		{whole, busy},
		{list{int64(1000), "me", "7", int64(3), int64(1), int64(1)}, exclusive},
		{list{int64(-1), "me", "7", int64(3), int64(2), int64(1)}, forever},
		{list{int64(0), "me", "7", int64(3), int64(2), int64(1)}, expired},
	} {
		got, err := ParseClaim(row.reply)
		require.NoError(t, err)
		assert.Equal(t, row.want, got)
	}
	bad := []any{"0", "-0", "x", "", int64(1), redisconn.BatchReply(0), nil, list{}, whole[:5]}
	for i := range whole {
		reply := append(list{}, whole...)
		reply[i] = 1.5
		bad = append(bad, reply)
	}
	for _, reply := range bad {
		got, err := ParseClaim(reply)
		require.Error(t, err, "%v", reply)
		assert.Zero(t, got)
	}
}

// The same of a claim with a record: it began, or there is nothing to run.
func TestReply_ToAClaimWithARecord(t *testing.T) {
	t.Parallel()
	record := func(state guardstore.RecordState, holder string) guardstore.ClaimReply {
		return guardstore.ClaimReply{Status: guardstore.ClaimRecorded, Record: &guardstore.Record{
			State: state, Fence: 17, Age: time.Millisecond, Holder: holder,
		}}
	}
	done := record(guardstore.RecordDone, "me")
	done.Record.Result = []byte("42")
	for _, row := range []struct {
		reply any
		want  guardstore.ClaimReply
	}{
		{list{"17", "0"}, guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: 17}},
		{list{"17", "16"}, guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: 17, Earlier: 16}},
		{list{"done", "17", "1000", "me", "42"}, done},
		{list{"begun", "17", "1000", "", ""}, record(guardstore.RecordBegun, "")},
		{list{"begun", "17", "1000", "me", ""}, record(guardstore.RecordBegun, "me")},
		{list{"unkept", "17", "1000", "me", ""}, record(guardstore.RecordNotKept, "me")},
		{list{"other", "17", "1000", "", ""}, record(guardstore.RecordOtherInput, "")},
		{list{"damaged", "0", "0", "", ""}, guardstore.ClaimReply{
			Status: guardstore.ClaimRecorded, Record: &guardstore.Record{State: guardstore.RecordDamaged},
		}},
		{int64(0), guardstore.ClaimReply{Status: guardstore.ClaimFinished}},
	} {
		got, err := parseOnceReply(row.reply)
		require.NoError(t, err)
		assert.Equal(t, row.want, got)
	}
	for _, reply := range []any{
		"17", redisconn.BatchReply(17),
		list{},
		list{"17"},
		list{"17", "x"},
		list{"0", "16"},
		list{int64(0), "16"},
		list{"17", int64(16)},
		list{"done", "x", "1000", "me", "42"},
		list{"done", "17", "x", "me", "42"},
		list{"done", "17", "1000", int64(2), "42"},
		list{"done", "17", "1000", "me", int64(42)},
		list{"done", "17", "1000", "me"},
		list{"gone", "17", "1000", "me", ""},
		list{int64(1), "17", "1000", "me", ""},
	} {
		got, err := parseOnceReply(reply)
		require.Error(t, err, "%v", reply)
		assert.Zero(t, got)
	}
}

func TestReply_ToAReleaseAndARenewal(t *testing.T) {
	t.Parallel()
	for reply, want := range map[any]guardstore.ReleaseReply{
		int64(0): {Status: guardstore.ReleaseLost}, int64(1): {Status: guardstore.ReleaseDone}, redisconn.BatchReply(1): {Status: guardstore.ReleaseDone},
		int64(2): {Status: guardstore.ReleaseAlready}, int64(3): {Status: guardstore.ReleaseRevoked}, int64(4): {Status: guardstore.ReleaseDone, HeldOver: true},
	} {
		got, err := parseReleaseReply(reply)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, reply := range []any{int64(5), int64(-1), redisconn.BatchReply(0), "1", nil} {
		got, err := parseReleaseReply(reply)
		require.Error(t, err)
		assert.Zero(t, got)
	}
	for reply, want := range map[any]guardstore.RenewReply{int64(0): {}, int64(1): {Held: true}, int64(2): {Revoked: true}} {
		assert.Equal(t, want, parseRenewed(reply))
	}
	for _, reply := range []any{int64(3), int64(-1), "1", nil} {
		r := parseRenewed(reply)
		require.Error(t, r.Err)
		assert.False(t, r.Held || r.Revoked)
		held, err := ParseHeld(reply)
		require.Error(t, err)
		assert.False(t, held)
	}
}

func TestReply_MessagesOfTheSubscription(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]guardstore.Notification{
		"o": {Owner: "o"}, "+o": {Owner: "o", First: true}, "!o": {Owner: "o", Revoked: true},
	} {
		assert.Equal(t, want, parseNotification(payload))
	}
}
