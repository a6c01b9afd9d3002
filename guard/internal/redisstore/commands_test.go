package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestLoad_OfAFileThatIsNotThere(t *testing.T) {
	t.Parallel()
	assert.Panics(t, func() { Load(lua, "none") })
}

// What a claim sends, and that all but the plain ones go by themselves.
func TestCommand_OfAClaim(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		claim guardstore.Claim
		wants string
		more  []string
	}{
		{wants: "-"},
		{claim: guardstore.Claim{Limit: 2}, wants: "- 0"},
		{claim: guardstore.Claim{FenceAbove: 7, Unsubscribed: true}, wants: "- 7"},
		{claim: guardstore.Claim{Queue: true}, wants: "0"},
		{claim: guardstore.Claim{Queue: true, Unsubscribed: true, Metadata: "me"}, wants: "0-"},
		{claim: guardstore.Claim{Queue: true, FenceAbove: 7, Unsubscribed: true}, wants: "0- 7"},
		{claim: guardstore.Claim{Queue: true, FenceAbove: 7}, wants: "0 7"},
		{claim: guardstore.Claim{Queue: true, Ticket: 9}, wants: "9 0"},
		{claim: guardstore.Claim{Once: &guardstore.Once{Keep: time.Hour}}, wants: "-", more: []string{"-", "3600000", "0"}},
		{claim: guardstore.Claim{Once: &guardstore.Once{Keep: time.Hour, Fingerprint: "f", AtMostOnce: true}}, wants: "-", more: []string{"f", "3600000", "1"}},
	} {
		s := &Store{prefix: "guard", shared: []string{"ch"}}
		row.claim.Key, row.claim.Owner, row.claim.TTL = "k", "o", time.Second
		c := s.acquireCommand(&row.claim, s.keys("k"))
		assert.Equal(t, append([]string{"o", "1000", row.claim.Metadata, row.wants}, row.more...), c.Args)
		assert.Equal(t, row.more != nil || strings.Contains(row.wants, " "), c.Alone, "%+v", row.claim)
		assert.Len(t, c.Keys, 5+min(len(row.more), 1))
	}
}

// What a release sends, and that all but the plain ones go by themselves. A Store that does not know what the
// clock shows says how high the fence is.
func TestCommand_OfARelease(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		release guardstore.Release
		clock   uint64 // what the server's clock shows
		how     string
		more    []string
	}{
		{release: guardstore.Release{Fence: 7}, clock: 7},
		{release: guardstore.Release{Fence: 7, Limit: 2}, clock: 7, how: "7 0 -"},
		{release: guardstore.Release{Fence: 8}, clock: 7, how: "8 0 -"},
		{release: guardstore.Release{Fence: 7}, how: "7 0 -"},
		{release: guardstore.Release{}},
		{release: guardstore.Release{Fence: 7, Tombstone: true}, clock: 7, how: "7 0 t"},
		{release: guardstore.Release{Fence: 7, MinHold: time.Second}, clock: 7, how: "7 1000 -"},
		{
			release: guardstore.Release{Fence: 7, Record: &guardstore.Outcome{
				Once: guardstore.Once{Keep: time.Second}, State: guardstore.RecordDone, Holder: "me", Result: []byte("r"),
			}},
			clock: 7, how: "7 0 -", more: []string{"done", "-", "1000", "0", "me", "r"},
		},
	} {
		s := &Store{conn: &ackedConn{}, prefix: "guard", shared: []string{"ch"}, now: func() instant { return 1 << 60 }}
		s.clock(t.Context(), "k", LockKey("guard", "k")).observe(row.clock, nil, s.now(), s.now())
		row.release.Key, row.release.Owner = "k", "o"
		c := s.releaseCommand(t.Context(), &row.release)
		assert.Equal(t, append([]string{"o", row.how}, row.more...), c.Args)
		assert.Equal(t, row.how != "", c.Alone, "%+v", row.release)
		assert.Len(t, c.Keys, 5+min(len(row.more), 1))
	}
}

// The renewal of an exclusive lock has one key: it gets through while its slot moves.
func TestCommand_OfARenewal(t *testing.T) {
	t.Parallel()
	s := &Store{prefix: "redlatch"}
	assert.Equal(t, []string{"redlatch:{k}"}, s.renewCommand(&guardstore.Grant{Key: "k"}).Keys)
	for _, limit := range []guardstore.Limit{2, guardstore.Unlimited} {
		assert.Equal(t, []string{"redlatch:{k}", "redlatch:{k}:holders"}, s.renewCommand(&guardstore.Grant{Key: "k", Limit: limit}).Keys)
	}
	assert.Equal(t, []string{"redlatch:{k}", "redlatch:{k}:once"}, s.renewCommand(&guardstore.Grant{Key: "k", Keep: time.Hour}).Keys)
}

// A grant that too few replicas know of is none. A key that is busy is busy, whatever replicas know.
func TestParseClaim_WithTooFewReplicas(t *testing.T) {
	t.Parallel()
	lag := redisconn.AckError{}
	r, _, err := parseClaim("held 17 17", lag)
	assert.Equal(t, lag, err)
	assert.Zero(t, r)
	const busy = "busy 1000 0 0 1 0 "
	r, _, err = parseClaim(busy, lag)
	require.NoError(t, err)
	assert.Equal(t, guardstore.ClaimBusy, r.Status)
	failed := errors.New("failed")
	_, _, err = parseClaim("held 17 17", failed)
	assert.Equal(t, failed, err)
}

// An error is the result of each command. A refusal of Redis that does not pass is a RefusedError.
func TestStore_ReturnsErrors(t *testing.T) {
	t.Parallel()
	s := &Store{prefix: "guard", now: clock.Now}
	for failed, refused := range map[error]bool{errors.New("failed"): false, redistest.ReplyError("NOPERM no right"): true} {
		s.conn = &fixedConn{refusal: failed}
		_, acquire := s.Acquire(t.Context(), guardstore.Claim{Key: "k"})
		_, release := s.Release(t.Context(), guardstore.Release{Key: "k"})
		_, recorded := s.Recorded(t.Context(), "k")
		_, forget := s.Forget(t.Context(), guardstore.Forget{Key: "k"})
		_, call := s.Call(t.Context(), "ping")
		renew := s.Renew(t.Context(), []guardstore.Grant{{Key: "k"}})[0].Err
		for _, err := range []error{acquire, release, recorded, forget, call, renew} {
			require.ErrorIs(t, err, failed)
			assert.Equal(t, refused, Answered(err))
		}
		assert.ErrorIs(t, s.Announce(t.Context(), "me", "web-1", time.Second), failed)
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

// fixedConn answers every command itself.
type fixedConn struct {
	conn
	reply   any
	refusal error
}

func (*fixedConn) Server(context.Context, string) string { return "" }

func (c *fixedConn) Do(context.Context, redisconn.Command) (any, error) { return c.reply, c.refusal }

func (c *fixedConn) Call(context.Context, ...any) (any, error) { return c.reply, c.refusal }

func (c *fixedConn) Pipeline(_ context.Context, cmds []redisconn.Command) []redisconn.Reply {
	return slices.Repeat([]redisconn.Reply{{Value: c.reply, Err: c.refusal}}, len(cmds))
}

// ackedConn is a fixedConn that notes how many replicas the last command waits for.
type ackedConn struct {
	fixedConn

	acks int
}

func (c *ackedConn) Do(ctx context.Context, cmd redisconn.Command) (any, error) {
	c.acks = cmd.Acks.N
	return c.fixedConn.Do(ctx, cmd)
}

func (c *ackedConn) Server(_ context.Context, key string) string { return "of " + key }

func (c *ackedConn) Close() error { return c.refusal }

// A claim waits for replicas, and so does a release that keeps a result.
func TestStore_ClaimsAndKeptResultsWaitForReplicas(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1} {
		conn := &ackedConn{fixedConn: fixedConn{reply: "held 17 17"}}
		s := &Store{conn: conn, prefix: "guard", replicas: redisconn.AckWait{N: n}, now: clock.Now}
		_, err := s.Acquire(t.Context(), guardstore.Claim{Key: "k"})
		require.NoError(t, err)
		assert.Equal(t, n, conn.acks)
		conn.reply = "released"
		_, err = s.Release(t.Context(), guardstore.Release{Key: "k"})
		require.NoError(t, err)
		assert.Zero(t, conn.acks)
		_, err = s.Release(t.Context(), guardstore.Release{Key: "k", Record: &guardstore.Outcome{}})
		require.NoError(t, err)
		assert.Equal(t, n, conn.acks)
	}
}

// A caller waits for a renewal without a ttl: it goes with the commands of callers.
func TestStore_ARenewalThatACallerWaitsForIsACommand(t *testing.T) {
	t.Parallel()
	conn := &ackedConn{fixedConn: fixedConn{reply: "held"}}
	s := &Store{conn: conn, prefix: "guard", now: clock.Now}
	for _, row := range []struct {
		isCommand bool
		batch     []guardstore.Grant
	}{
		{true, []guardstore.Grant{{Key: "k"}}},
		{false, []guardstore.Grant{{Key: "k"}, {Key: "l"}}},
		{false, []guardstore.Grant{{Key: "k", TTL: time.Second}}},
	} {
		conn.acks = -1 // no command
		s.Renew(t.Context(), row.batch)
		assert.Equal(t, row.isCommand, conn.acks == 0)
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
func TestClassify_RefusalIsAnAnswer(t *testing.T) {
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
