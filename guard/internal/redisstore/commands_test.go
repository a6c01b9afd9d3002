package redisstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
	"github.com/redlatch/redlatch/internal/redistest"
)

// valuesOf reads the arguments of a command, of which some are pointers.
func valuesOf(c redisconn.Command) (values []any) {
	for _, arg := range c.Args(nil) {
		switch p := arg.(type) {
		case *string:
			arg = *p
		case *uint64:
			arg = *p
		case *int64:
			arg = *p
		}
		values = append(values, arg)
	}
	return values
}

// What a claim sends, and that only a plain one goes out together with others.
func TestCommand_OfAClaim(t *testing.T) {
	t.Parallel()
	plain := []any{"o", int64(1000), "", uint64(0), "", "ch", ""}
	for _, row := range []struct {
		claim    guardstore.Claim
		replicas int
		change   map[int]any // of the arguments
		more     []any
		alone    bool
	}{
		{},
		{claim: guardstore.Claim{Metadata: "me"}, change: map[int]any{2: "me"}},
		{claim: guardstore.Claim{FenceAbove: 7}, change: map[int]any{3: uint64(7)}, alone: true},
		{claim: guardstore.Claim{Queue: true}, change: map[int]any{4: uint64(0)}},
		{claim: guardstore.Claim{Queue: true, Ticket: 9}, change: map[int]any{4: uint64(9)}, alone: true},
		{claim: guardstore.Claim{Unsubscribed: true}, change: map[int]any{6: "u"}},
		{replicas: 1, change: map[int]any{6: "w"}},
		{claim: guardstore.Claim{Unsubscribed: true}, replicas: 1, change: map[int]any{6: "wu"}},
		{claim: guardstore.Claim{Once: &guardstore.Once{Keep: time.Hour}}, more: []any{"-", int64(3_600_000), 0}, alone: true},
		{claim: guardstore.Claim{Once: &guardstore.Once{Keep: time.Hour, Fingerprint: "f", AtMostOnce: true}}, more: []any{"f", int64(3_600_000), 1}, alone: true},
	} {
		s := &Store{prefix: "redlatch", channels: "ch", replicas: redisconn.AckWait{N: row.replicas}}
		row.claim.Key, row.claim.Owner = "k", "o"
		c := &acquireCommand{row.claim, s, s.keys("k"), 1000}
		want := append([]any{}, plain...)
		for i, value := range row.change {
			want[i] = value
		}
		assert.Equal(t, append(want, row.more...), valuesOf(c))
		assert.Equal(t, row.alone, c.Batch() == nil, "%+v", row.claim)
		assert.Len(t, c.Keys(), 5+min(len(row.more), 1))
	}
}

// What a release sends, and that only a plain one goes out together with others.
func TestCommand_OfARelease(t *testing.T) {
	t.Parallel()
	plain := []any{"o", int64(1000), uint64(7), 0, int64(0), "ch"}
	for _, row := range []struct {
		release guardstore.Release
		record  bool
		change  map[int]any
		more    []any
		alone   bool
	}{
		{release: guardstore.Release{Fence: 7}},
		{change: map[int]any{2: uint64(0)}, alone: true},
		{release: guardstore.Release{Fence: 7, Tombstone: true}, change: map[int]any{3: 1}, alone: true},
		{release: guardstore.Release{Fence: 7, MinHold: time.Second}, change: map[int]any{4: int64(1000)}, alone: true},
		{
			release: guardstore.Release{Fence: 7, Record: &guardstore.Outcome{
				Once: guardstore.Once{Keep: time.Second}, State: guardstore.RecordDone, Holder: "me", Result: []byte("r"),
			}},
			record: true, more: []any{"done", "-", int64(1000), 0, "me", []byte("r")}, alone: true,
		},
	} {
		s := &Store{prefix: "redlatch", channels: "ch"}
		row.release.Key, row.release.Owner, row.release.TTL = "k", "o", time.Second
		var names []string
		if row.record {
			names = []string{s.recordKey("k")}
		}
		c := s.release(releaseScript, row.release, names...)
		want := append([]any{}, plain...)
		for i, value := range row.change {
			want[i] = value
		}
		assert.Equal(t, append(want, row.more...), valuesOf(c))
		assert.Equal(t, row.alone, c.Batch() == nil, "%+v", row.release)
		assert.Len(t, c.Keys(), 5+len(names))
	}
}

// The renewal of an exclusive lock has one key: it gets through while its slot moves.
func TestCommand_OfARenewal(t *testing.T) {
	t.Parallel()
	s := &Store{prefix: "redlatch"}
	assert.Equal(t, []string{"redlatch:{k}"}, s.renewal(&guardstore.Grant{Key: "k"}).Keys())
	for _, limit := range []guardstore.Limit{2, guardstore.Unlimited} {
		assert.Equal(t, []string{"redlatch:{k}", "redlatch:{k}:holders"}, s.renewal(&guardstore.Grant{Key: "k", Limit: limit}).Keys())
	}
	assert.Equal(t, []string{"redlatch:{k}", "redlatch:{k}:once"}, s.renewal(&guardstore.Grant{Key: "k", Keep: time.Hour}).Keys())
}

// A grant that too few replicas know of is none. A key that is busy is busy, whatever replicas know.
func TestAcquired_WithTooFewReplicas(t *testing.T) {
	t.Parallel()
	lag := redisconn.AckError{}
	r, err := acquired("17", lag, ParseClaim)
	assert.Equal(t, lag, err)
	assert.Zero(t, r)
	busy := []any{int64(1000), "", "0", int64(0), int64(1), int64(0)}
	r, err = acquired(busy, lag, ParseClaim)
	require.NoError(t, err)
	assert.Equal(t, guardstore.ClaimBusy, r.Status)
	failed := errors.New("failed")
	_, err = acquired("17", failed, ParseClaim)
	assert.Equal(t, failed, err)
}

// An error is the result of each command.
func TestStore_ReturnsErrors(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	s := &Store{conn: &fixedConn{refusal: failed}, prefix: "redlatch"}
	_, acquire := s.Acquire(t.Context(), guardstore.Claim{Key: "k"})
	_, release := s.Release(t.Context(), guardstore.Release{Key: "k"})
	_, recorded := s.Recorded(t.Context(), "k")
	_, forget := s.Forget(t.Context(), guardstore.Forget{Key: "k"})
	_, call := s.Call(t.Context(), "ping")
	announce := s.Announce(t.Context(), "me", "web-1", time.Second)
	for _, err := range []error{acquire, release, recorded, forget, call, announce, s.Renew(t.Context(), []guardstore.Grant{{Key: "k"}})[0].Err} {
		assert.ErrorIs(t, err, failed)
	}
	for reply, want := range map[any]guardstore.ForgetStatus{int64(0): guardstore.ForgetNone, int64(1): guardstore.ForgetDone, int64(2): guardstore.ForgetBusy} {
		s.conn = &fixedConn{reply: reply}
		got, err := s.Forget(t.Context(), guardstore.Forget{Key: "k"})
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	s.conn = &fixedConn{reply: int64(3)}
	_, err := s.Forget(t.Context(), guardstore.Forget{Key: "k"})
	require.EqualError(t, err, "unexpected reply of type int64")
	for _, row := range []struct {
		reply any
		want  guardstore.RecordID
		ok    bool
	}{
		{int64(0), guardstore.RecordID{}, true},
		{[]any{"begun", "7"}, guardstore.RecordID{State: guardstore.RecordBegun, Fence: 7}, true},
		{[]any{"damaged", "0"}, guardstore.RecordID{State: guardstore.RecordDamaged}, true},
		{[]any{"gone", "7"}, guardstore.RecordID{}, false},
		{[]any{"begun", "x"}, guardstore.RecordID{}, false},
		{[]any{"begun"}, guardstore.RecordID{}, false},
		{int64(1), guardstore.RecordID{}, false},
	} {
		s.conn = &fixedConn{reply: row.reply}
		got, err := s.Recorded(t.Context(), "k")
		assert.Equal(t, row.want, got)
		assert.Equal(t, row.ok, err == nil, "%v", err)
	}
}

// The nodes of a cluster count their own subscribers only: scripts do not rely on their number there.
func TestNew_WhoseSubscribersAreCounted(t *testing.T) {
	t.Parallel()
	single := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer single.Close()
	defer cluster.Close()
	for want, client := range map[string]redis.UniversalClient{"1redlatch:grant:": single, "0redlatch:grant:": cluster} {
		s := New(client, Config{Prefix: "redlatch", AttemptTimeout: time.Second})
		assert.Equal(t, want, s.Channels())
		assert.NoError(t, s.Close())
	}
}

// ackedConn is a fixedConn that notes what waits for replicas.
type ackedConn struct {
	fixedConn

	acked int
}

func (c *ackedConn) DoAcked(ctx context.Context, cmd redisconn.Command, _ redisconn.AckWait) (any, error) {
	c.acked++
	return c.Do(ctx, cmd)
}

func (c *ackedConn) Server(_ context.Context, key string) string { return "of " + key }

func (c *ackedConn) Close() error { return c.refusal }

// A claim waits for replicas, and so does a release that keeps a result.
func TestStore_WhatWaitsForReplicas(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1} {
		conn := &ackedConn{fixedConn: fixedConn{reply: "17"}}
		s := &Store{conn: conn, prefix: "redlatch", replicas: redisconn.AckWait{N: n}}
		_, err := s.Acquire(t.Context(), guardstore.Claim{Key: "k"})
		require.NoError(t, err)
		assert.Equal(t, n, conn.acked)
		conn.reply = int64(1)
		_, err = s.Release(t.Context(), guardstore.Release{Key: "k"})
		require.NoError(t, err)
		assert.Equal(t, n, conn.acked)
		_, err = s.Release(t.Context(), guardstore.Release{Key: "k", Record: &guardstore.Outcome{}})
		require.NoError(t, err)
		assert.Equal(t, 2*n, conn.acked)
	}
}

func TestStore_AsksItsConnection(t *testing.T) {
	t.Parallel()
	conn := &ackedConn{fixedConn: fixedConn{reply: "PONG"}}
	s := &Store{conn: conn, prefix: "redlatch"}
	reply, err := s.Call(t.Context(), "ping")
	require.NoError(t, err)
	assert.Equal(t, "PONG", reply)
	assert.Equal(t, "of redlatch:{k}", s.Server(t.Context(), "k"))
	conn.refusal = errors.New("failed")
	assert.Equal(t, conn.refusal, s.Close())
}

// A command that is not sent leaves no doubt. Only what the caller has to mend is a refusal.
func TestClassify_WhatAnErrorMeans(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, classify(fmt.Errorf("wrapped: %w", redisconn.ErrNotSent)), guardstore.ErrNotSent)
	assert.True(t, Answered(nil))
	for text, answered := range map[string]bool{
		"READONLY You can't write": false, "LOADING Redis": false, "BUSY Redis is busy": false, "ERR max number of clients reached": false,
		"MISCONF Redis is configured to save": false, "NOAUTH Authentication required.": false, "WRONGPASS invalid": false,
		"OOM command not allowed": false, "IOERR error": false, "ERR upstream failure": false, "CLUSTERDOWN": false,
		"WRONGTYPE Operation": true, "NOPERM User": true, "ERR ACL failure in script: WAIT": true, "ERR unknown command 'EVALSHA'": true,
		"ERR The user executing the script can't run this command or subcommand script: x":           true,
		"ERR Error running script (call to f_1): @user_script: 3: WRONGTYPE Operation against a key": true,
	} {
		assert.Equal(t, answered, Answered(classify(fmt.Errorf("wrapped: %w", redistest.ReplyError(text)))), text)
	}
	assert.False(t, Answered(classify(errors.New("READONLY"))), "not by Redis")
}
