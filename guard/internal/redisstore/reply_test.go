package redisstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
)

// A reply to a claim, each of its words counts. With one word of another kind it is no reply.
func TestReply_ToAClaim(t *testing.T) {
	t.Parallel()
	busy := guardstore.ClaimReply{Status: guardstore.ClaimBusy, Remaining: time.Second, Holder: "me too", Ticket: 7, Ahead: 3, Limit: 2, Done: true}
	exclusive, forever, expired := busy, busy, busy
	exclusive.Limit, forever.Remaining, expired.Remaining = guardstore.Exclusive, clock.Forever, 0
	record := func(state guardstore.RecordState, holder string) guardstore.ClaimReply {
		return guardstore.ClaimReply{Status: guardstore.ClaimRecorded, Record: &guardstore.Record{
			State: state, Fence: 17, Age: time.Millisecond, Holder: holder,
		}}
	}
	done := record(guardstore.RecordDone, "me")
	done.Record.Result = []byte("42")
	for _, row := range []struct {
		reply string
		want  guardstore.ClaimReply
		at    uint64
	}{
		{"held 17 17", guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: 17}, 17},
		{"held 17 16", guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: 17, FenceAhead: true}, 16},
		{"held 17 18", guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: 17}, 18},
		{"held 17 17 16", guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: 17, Earlier: 16}, 17},
		{"ended", guardstore.ClaimReply{Status: guardstore.ClaimFinished}, 0},
		{"busy 1000 7 3 2 1 me too", busy, 0},
		{"busy 1000 7 3 1 1 me too", exclusive, 0},
		{"busy -1 7 3 2 1 me too", forever, 0},
		{"busy 0 7 3 2 1 me too", expired, 0},
		{"recorded done 17 1000 2 me42", done, 0},
		{"recorded begun 17 1000 0 ", record(guardstore.RecordBegun, ""), 0},
		{"recorded begun 17 1000 2 me", record(guardstore.RecordBegun, "me"), 0},
		{"recorded unkept 17 1000 2 me", record(guardstore.RecordNotKept, "me"), 0},
		{"recorded other 17 1000 0 ", record(guardstore.RecordOtherInput, ""), 0},
		{"recorded damaged 0 0 0 ", guardstore.ClaimReply{Status: guardstore.ClaimRecorded, Record: &guardstore.Record{State: guardstore.RecordDamaged}}, 0},
	} {
		got, at, err := parseClaim(row.reply, nil)
		require.NoError(t, err)
		assert.Equal(t, row.want, got)
		assert.Equal(t, row.at, at, "%v", row.reply)
	}
	for _, reply := range []any{
		"17", "held", "held ", "held 17", "held 0 1", "held -1 1", "held x 1", "held 17 ", "held 17 x", "held 17 17 x", "held 17 17 1 1", "held 9007199254740992 1", "held 9007199254740992 1 5", "ended 1", "lost", "",
		"busy 1000 7 3 2 1", "busy x 7 3 2 1 me", "busy 1000 x 3 2 1 me", "busy 1000 7 x 2 1 me", "busy 1000 7 3 x 1 me", "busy 1000 7 3 2 2 me",
		"recorded done x 1000 2 me42", "recorded done 17 x 2 me42", "recorded done 17 1000 3 me", "recorded done 17 1000 -1 me", "recorded done 17 1000 me", "recorded done 17 1000 ",
		"recorded done 17 1000", "recorded begun 17 1000 3 me", "recorded unkept 17 1000 3 me", "recorded gone 17 1000 2 me", "recorded",
		int64(1), nil,
		[]any{"held", "17"},
	} {
		got, err := ParseClaim(reply)
		require.Error(t, err, "%v", reply)
		assert.Zero(t, got)
	}
}

func TestReply_ToAReleaseAndARenewal(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]guardstore.ReleaseReply{
		"lost": {Status: guardstore.ReleaseLost}, "released": {Status: guardstore.ReleaseDone},
		"revoked": {Status: guardstore.ReleaseRevoked}, "kept": {Status: guardstore.ReleaseDone, HeldOver: true},
	} {
		got, err := parseRelease(word, nil)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, reply := range []any{int64(1), "released ", "held", "", nil} {
		got, err := parseRelease(reply, nil)
		require.Error(t, err)
		assert.Zero(t, got)
	}
	for _, row := range []struct {
		reply string
		want  guardstore.RenewReply
		at    uint64
	}{
		{"held 17", guardstore.RenewReply{Held: true}, 17},
		{"revoked", guardstore.RenewReply{Revoked: true}, 0},
		{"lost", guardstore.RenewReply{}, 0},
	} {
		got, at := parseRenewed(row.reply, nil)
		assert.Equal(t, row.want, got)
		assert.Equal(t, row.at, at)
	}
	for _, reply := range []any{int64(1), "held", "held x 1", "held 17 ", "lost 1", "revoked 1", "kept", "", nil} {
		r, _ := parseRenewed(reply, nil)
		require.Error(t, r.Err, "%v", reply)
		assert.False(t, r.Held || r.Revoked)
	}
	for reply, want := range map[string]bool{"held": true, "lost": false} {
		held, err := ParseHeld(reply)
		require.NoError(t, err)
		assert.Equal(t, want, held)
	}
	for _, reply := range []any{int64(1), "held 17", "released", nil} {
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
