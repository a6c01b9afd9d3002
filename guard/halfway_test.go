package guard_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/internal/redistest"
)

var calledInScripts = regexp.MustCompile(`p?call\('(\w+)'`)

// refusedCommand is how versions of Redis say it.
const refusedCommand = "^(NOPERM|ERR The user executing the script can't run this command|ERR ACL failure in script)"

// commandsOfScripts are what all scripts call, each once.
func commandsOfScripts() (names []string) {
	for _, source := range guard.Scripts() {
		for _, m := range calledInScripts.FindAllStringSubmatch(source, -1) {
			names = append(names, strings.ToLower(m[1]))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// halfway is a server, and a user who may run all commands but some.
type halfway struct {
	*testing.T
	admin *redis.Client
	store guardstore.Store
}

func (s *halfway) user(name string, without ...string) *redis.Client {
	s.Helper()
	args := []any{"acl", "setuser", name, "reset", "on", ">pw", "~*", "&*", "+@all"}
	for _, command := range without {
		args = append(args, "-"+command)
	}
	require.NoError(s, s.admin.Do(s.Context(), args...).Err())
	options := *s.admin.Options()
	options.Username, options.Password = name, "pw"
	client := redis.NewClient(&options)
	s.Cleanup(func() { _ = client.Close() })
	return client
}

// nothingWithoutAnEnd says that no key stays for ever, and returns what there is.
func (s *halfway) nothingWithoutAnEnd(when string) []string {
	s.Helper()
	keys := s.admin.Keys(s.Context(), "*").Val()
	for _, key := range keys {
		require.Positive(s, s.admin.PTTL(s.Context(), key).Val(), "%s: %s has no end", when, key)
	}
	return keys
}

// Whichever command of a script Redis refuses, the script leaves no lock that nobody has, and
// nothing that has no end.
func TestAScriptThatIsRefusedHalfWayLeavesNothing(t *testing.T) {
	t.Parallel()
	commands := commandsOfScripts()
	require.Greater(t, len(commands), 20)
	server := redistest.Start(t)
	admin := server.Client(t)
	ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	x := claimOf("k", "x-1")
	queued := x
	queued.Queue = true
	wakes := "guard:{k}:wake"
	keys := []string{"guard:{k}", "guard:{k}:queue", "guard:{k}:last", "guard:{k}:seen"}
	busy := func(s *halfway) {
		require.NoError(s, s.admin.HSet(s.Context(), keys[0], "y-1", 1, "@fence", 7).Err())
		require.NoError(s, s.admin.PExpire(s.Context(), keys[0], time.Minute).Err())
	}
	acquire := func(c guardstore.Claim) func(s *halfway) error {
		return func(s *halfway) error { _, err := s.store.Acquire(s.Context(), c); return err }
	}
	release := func(tombstone bool, next *guardstore.NextClaim) func(s *halfway) error {
		return func(s *halfway) error {
			_, err := s.store.Release(s.Context(), guardstore.Release{Key: "k", Owner: "x-1", TTL: time.Minute, Fence: 1, Tombstone: tombstone, Next: next})
			return err
		}
	}
	script := func(user func(s *halfway) redis.Scripter, name string, keys []string, args ...any) func(s *halfway) error {
		return func(s *halfway) error {
			return redis.NewScript(guard.Scripts()[name]).Eval(s.Context(), user(s), keys, args...).Err()
		}
	}
	var limited *redis.Client
	user := func(*halfway) redis.Scripter { return limited }
	for name, c := range map[string]struct {
		prepare func(s *halfway)
		run     func(s *halfway) error
		free    bool // a refusal leaves the lock free
	}{
		"acquire, free":                {run: acquire(x), free: true},
		"acquire, free, with metadata": {run: acquire(guardstore.Claim{Key: "k", Owner: "x-1", TTL: time.Minute, Metadata: "m"}), free: true},
		"acquire, free, ahead of the clock": {prepare: func(s *halfway) {
			require.NoError(s, s.admin.Set(s.Context(), keys[2], ahead+" z-1", 2*time.Hour).Err())
		}, run: acquire(x), free: true},
		"acquire, free, wanted": {prepare: func(s *halfway) {
			require.NoError(s, s.admin.ZAdd(s.Context(), keys[1], redis.Z{Score: 1, Member: "z-1"}).Err())
			require.NoError(s, s.admin.PExpire(s.Context(), keys[1], time.Minute).Err())
		}, run: acquire(queued), free: true},
		"acquire, to wait": {prepare: busy, run: acquire(queued)},
		"acquire, in company": {run: func(s *halfway) error {
			_, _, errs := guard.Together(s.Context(), s.store, []guardstore.Claim{x, claimOf("o", "o-1")}, nil)
			return errs[0]
		}, free: true},
		"release, with a tombstone": {run: release(true, nil)},
		"release, with a next claim": {prepare: func(s *halfway) {
			require.NoError(s, s.admin.HSet(s.Context(), keys[0], "x-1", 1, "@fence", 7).Err())
			require.NoError(s, s.admin.PExpire(s.Context(), keys[0], time.Minute).Err())
		}, run: release(false, &guardstore.NextClaim{Owner: "x-2"})},
		"undo": {run: script(user, "undo", keys[:2], "x-1~1", 1)},
		"wait": {run: script(user, "wait", []string{keys[0], keys[1], wakes}, "x-1", 0)},
		"wake": {run: script(user, "wake", []string{wakes}, "y-1", "0channel:", "x-1")},
	} {
		t.Run(name, func(t *testing.T) {
			refusals := 0
			for i, command := range commands {
				s := &halfway{T: t, admin: admin}
				require.NoError(t, admin.FlushAll(t.Context()).Err())
				if c.prepare != nil {
					c.prepare(s)
				}
				last := admin.Get(t.Context(), keys[2]).Val()
				limited = s.user(fmt.Sprint("limited-", i), command)
				s.store = guard.RedisStore(t, limited, "guard")
				when := "without " + command
				err := c.run(s)
				left := s.nothingWithoutAnEnd(when)
				if err == nil {
					continue
				}
				refusals++
				require.Regexp(t, refusedCommand, err.Error(), when)
				if c.free {
					assert.NotContains(t, left, keys[0], "%s: a lock that nobody has", when)
					assert.Equal(t, last, admin.Get(t.Context(), keys[2]).Val(), "%s: another fence is remembered", when)
				}
			}
			require.Positive(t, refusals)
		})
	}
	t.Run("without two", func(t *testing.T) {
		s := &halfway{T: t, admin: admin}
		require.NoError(t, admin.FlushAll(t.Context()).Err())
		limited = s.user("limited-two", "pexpire", "del")
		s.store = guard.RedisStore(t, limited, "guard")
		require.Regexp(t, refusedCommand, fmt.Sprint(acquire(x)(s)))
		assert.NotContains(t, s.nothingWithoutAnEnd("without pexpire and del"), keys[0])
	})
}

// A Guard that may not ask how many replicas know of a lock gives back what it took.
func TestReplicasWithoutTheRightToWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := &halfway{T: t, admin: server.Client(t)}
	client := s.user("limited", "wait")
	g := guardOn(t, client, guard.Replicas(1, 100*time.Millisecond), guard.StoreTimeout(2*patience))
	begun := time.Now()
	err := g.WithLock(t.Context(), guard.Key("k"), func(context.Context) error {
		t.Error("it ran")
		return nil
	})
	require.ErrorIs(t, err, guard.ErrStore)
	require.ErrorContains(t, err, "NOPERM")
	assert.Less(t, time.Since(begun), patience, "asking again is of no use")
	eventually(t, func() bool { return s.admin.Exists(t.Context(), "guard:{k}").Val() == 0 }, "held by nobody")
	other := guardOn(t, server.Client(t))
	require.NoError(t, other.WithLock(t.Context(), guard.Key("k"), nothing, guard.Wait(patience)))
}

// Who is granted the lock by a release holds it only when replicas know: its confirmation
// writes something, whatever there is to change.
func TestReplicasKnowOfAGrant(t *testing.T) {
	t.Parallel()
	primary, replica := replicated(t)
	holder := guardOn(t, primary.Client(t))
	waiter := guardOn(t, primary.Client(t), guard.Replicas(1, 100*time.Millisecond), guard.StoreTimeout(500*time.Millisecond), guard.TTL(time.Second))
	require.NoError(t, waiter.WithLock(t.Context(), guard.Key("k"), nothing))
	l, err := holder.Acquire(t.Context(), guard.Key("k"))
	require.NoError(t, err)
	ran := false
	waited := inBackground(func() error {
		return waiter.WithLock(context.WithoutCancel(t.Context()), guard.Key("k"), func(context.Context) error {
			ran = true
			return nil
		})
	})
	admin := primary.Client(t)
	eventually(t, func() bool { return admin.ZCard(t.Context(), "guard:{k}:queue").Val() == 1 }, "it waits")
	require.NoError(t, replica.Pause())
	require.NoError(t, l.Release(t.Context()))
	require.ErrorIs(t, waited(t), guard.ErrStore)
	assert.False(t, ran, "no replica knows")
	require.NoError(t, replica.Resume())
}

// The same as the script sees it, on any Redis: of a confirmation without anything to change,
// WAIT knows no offset to wait for, from 7.2 on.
func TestAConfirmationWritesIfReplicasAreToKnow(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	keys := []string{"{k}", "{k}:queue", "{k}:last", "{k}:seen"}
	acquire := redis.NewScript(guard.Scripts()["acquire"])
	changes := func() string {
		for line := range strings.Lines(client.Info(t.Context(), "persistence").Val()) {
			if n, found := strings.CutPrefix(line, "rdb_changes_since_last_save:"); found {
				return n
			}
		}
		t.Fatal("no number")
		return ""
	}
	require.NoError(t, acquire.Run(t.Context(), client, keys, "x-1", "0c:", 60000, "", "", 0).Err())
	before := changes()
	require.NoError(t, acquire.Run(t.Context(), client, keys, "x-1", "0c:", 1000, "", "", 0).Err())
	require.Equal(t, before, changes(), "nothing to change, and nobody asked")
	require.NoError(t, acquire.Run(t.Context(), client, keys, "x-1", "0c:", 1000, "", "", 0, 1).Err())
	require.NotEqual(t, before, changes())
	require.Greater(t, client.PTTL(t.Context(), "{k}").Val(), 30*time.Second, "it does not shorten")
}
