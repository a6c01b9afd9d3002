package doctor_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

func examine(t *testing.T, client redis.UniversalClient) map[string]doctor.Finding {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	found, err := doctor.Examine(ctx, client, "redlatch")
	require.NoError(t, err)
	by := map[string]doctor.Finding{}
	for _, f := range found {
		if was, ok := by[f.Check]; !ok || was.Level == doctor.OK {
			by[f.Check] = f
		}
		assert.NotEmpty(t, f.Says)
		if f.Level == doctor.Bad || f.Level == doctor.Warn {
			assert.NotEmpty(t, f.Fix, f.Check)
		}
	}
	return by
}

func TestDoctor_HealthyServerHasNoFinding(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := s.Client(t)
	by := examine(t, client)
	for _, check := range []string{"version", "memory", "clock", "replication", "connections", "scripts", "messages"} {
		assert.Equal(t, doctor.OK, by[check].Level, "%+v", by[check])
	}
	assert.Contains(t, by, "latency")
	assert.Equal(t, doctor.Note, by["persistence"].Level)
	keys, err := client.DBSize(t.Context()).Result()
	require.NoError(t, err)
	assert.Zero(t, keys, "it writes nothing")
	require.Eventually(t, func() bool { return len(client.PubSubChannels(t.Context(), "*").Val()) == 0 }, 10*time.Second, time.Millisecond)
}

// answers changes replies of a server.
type answers struct {
	info   string // in place of the reply to INFO
	config string // of min-replicas-to-write
}

func (answers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (answers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a answers) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		switch cmd := cmd.(type) {
		case *redis.StringCmd:
			if cmd.Name() == "info" {
				cmd.SetVal(a.info)
			}
		case *redis.MapStringStringCmd:
			cmd.SetVal(map[string]string{"min-replicas-to-write": a.config})
		}
		return err
	}
}

// A field that INFO lacks is a note, or no finding.
func TestDoctor_ReadsInfo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const none doctor.Level = ""
	for _, c := range []struct {
		answers

		check string
		level doctor.Level
		says  string
	}{
		{answers{info: "redis_version:6.0.16\r\n"}, "version", doctor.Bad, ""},
		{answers{info: "redis_version:5.9.0\r\n"}, "version", doctor.Bad, "Redis 5.9.0 is too old"},
		{answers{info: "redis_version:6.2.0\r\n"}, "version", doctor.OK, ""},
		{answers{info: "redis_version:7.2.4\r\nvalkey_version:5.0.0\r\n"}, "version", doctor.OK, "Valkey 5.0.0"},
		{answers{info: "redis_version:7.2.4\r\nvalkey_version:8.1.0\r\n"}, "version", doctor.OK, ""},
		{answers{info: "redis_version:unknown\r\nused_memory:1\r\nrole:x\r\n"}, "version", doctor.Note, ""},
		{answers{info: "redis_version:7.2.4\r\n"}, "memory", doctor.Note, "it does not tell its "},
		{answers{info: "maxmemory_policy:allkeys-lru\r\nmaxmemory:0\r\n"}, "memory", doctor.Warn, "allkeys-lru"},
		{answers{info: "maxmemory_policy:volatile-ttl\r\nmaxmemory:100\r\n"}, "memory", doctor.Bad, "volatile-ttl"},
		{answers{info: "maxmemory_policy:noeviction\r\nmaxmemory:100\r\nused_memory:90\r\n"}, "memory", doctor.OK, ""},
		{answers{info: "maxmemory_policy:noeviction\r\nmaxmemory:100\r\nused_memory:91\r\n"}, "memory", doctor.Warn, "91 of 100 bytes"},
		{answers{info: "redis_version:7.2.4\r\n"}, "replication", doctor.Note, "it does not tell its "},
		{answers{info: "redis_version:7.2.4\r\n"}, "mode", none, ""},
		{answers{info: "redis_version:7.2.4\r\n"}, "persistence", none, ""},
		{answers{info: "redis_version:7.2.4\r\n"}, "connections", none, ""},
		{answers{info: "aof_enabled:1\r\n"}, "persistence", none, ""},
		{answers{info: "connected_clients:80\r\nmaxclients:100\r\n"}, "connections", doctor.OK, "80 of 100 connections"},
		{answers{info: "connected_clients:81\r\nmaxclients:100\r\n"}, "connections", doctor.Warn, "81 of 100 connections"},
		{answers{info: "role:slave\r\n"}, "replication", doctor.Bad, "this is a replica"},
		{answers{info: "connected_slaves:2\r\n", config: "0"}, "replication", doctor.Warn, "2 replicas and min-replicas-to-write 0"},
		{answers{info: "connected_slaves:2\r\n", config: "2"}, "replication", doctor.OK, "2 replicas"},
		{answers{info: "connected_slaves:10\r\n", config: "10"}, "replication", doctor.OK, "10 replicas, min-replicas-to-write 10"},
		{answers{info: "connected_slaves:2\r\n", config: "3"}, "replication", doctor.Bad, "every write is refused"},
		{answers{info: "connected_slaves:2\r\n"}, "replication", doctor.Note, "this user may not read "},
	} {
		client := s.Client(t)
		client.AddHook(c.answers)
		f := examine(t, client)[c.check]
		assert.Equal(t, c.level, f.Level, "%+v %+v", c, f)
		assert.Contains(t, f.Says, c.says)
	}
}

// clocked is a server whose replies take their time: each PING as long as pings says, in turn, and TIME 20 ms.
type clocked struct {
	answers

	pings []time.Duration
	lag   time.Duration
}

func (*clocked) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("not a network") }
}

func (c *clocked) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		switch cmd := cmd.(type) {
		case *redis.StatusCmd:
			time.Sleep(c.pings[0])
			c.pings = c.pings[1:]
		case *redis.TimeCmd:
			time.Sleep(10 * time.Millisecond)
			cmd.SetVal(time.Now().Add(-c.lag))
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	}
}

// The first PING connects, and does not count. A difference of clocks that the round trip may have made does not, either.
func TestDoctor_MeasuresLatencyAndClock(t *testing.T) {
	t.Parallel()
	const ms, us = time.Millisecond, time.Microsecond
	for _, c := range []struct {
		median, lag time.Duration
		levels      []doctor.Level
		latency     string
		clock       string
	}{
		{50 * ms, 1020 * ms, []doctor.Level{doctor.OK, doctor.OK}, "50ms", "-1.02s"},
		{50*ms + 4*us, 1021*ms + 400*us, []doctor.Level{doctor.Warn, doctor.Warn}, "50ms", "-1.021s"},
		{2 * ms, -1021 * ms, []doctor.Level{doctor.OK, doctor.Warn}, "2ms", "1.021s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1})
			defer client.Close()
			client.AddHook(&clocked{pings: []time.Duration{time.Second, c.median, 80 * ms, ms, ms, ms, ms, 60 * ms, 60 * ms, 60 * ms}, lag: c.lag})
			by := examine(t, client)
			assert.Equal(t, c.levels[0], by["latency"].Level)
			assert.Equal(t, c.levels[1], by["clock"].Level)
			assert.Equal(t, "a round trip takes "+c.latency+", the longest of 9 took 80ms", by["latency"].Says)
			assert.Equal(t, "the server's clock is "+c.clock+" off ours", by["clock"].Says)
		})
	}
}

func TestDoctor_MissingRightsAreFindings(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin := s.Client(t)
	as := func(rights ...any) redis.UniversalClient {
		require.NoError(t, admin.Do(t.Context(), append([]any{"acl", "setuser", "u", "reset", "on", ">secret"}, rights...)...).Err())
		return s.Client(t, func(o *redis.Options) { o.Username, o.Password, o.DisableIdentity = "u", "secret", true })
	}
	by := examine(t, as("~redlatch:*", "&redlatch:grant:*", "+eval", "+time", "+hget", "+exists", "+publish", "+subscribe", "+unsubscribe"))
	assert.Equal(t, doctor.OK, by["scripts"].Level, "%+v", by["scripts"])
	assert.Equal(t, doctor.OK, by["messages"].Level, "%+v", by["messages"])
	assert.Equal(t, doctor.Note, by["info"].Level)

	by = examine(t, as("~redlatch:*", "&redlatch:grant:*", "+@all", "-publish"))
	assert.Equal(t, doctor.OK, by["scripts"].Level)
	assert.Equal(t, doctor.Warn, by["messages"].Level)
	assert.Contains(t, by["messages"].Says, "PUBLISH within a script is refused")

	by = examine(t, as("~redlatch:*", "resetchannels", "+@all"))
	assert.Contains(t, by["messages"].Says, "SUBSCRIBE is refused")

	by = examine(t, as("~other:*", "&*", "+@all"))
	assert.Equal(t, doctor.Bad, by["scripts"].Level)
	by = examine(t, as("~*", "&*", "+@all", "-time", "-config"))
	assert.Equal(t, doctor.Bad, by["clock"].Level)
}

func TestDoctor_RefusedLoginIsAFinding(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	require.NoError(t, s.Client(t).ConfigSet(t.Context(), "requirepass", "right").Err())
	for password, says := range map[string]string{"": "Redis wants a password", "wrong": "the user name or the password is wrong"} {
		found, err := doctor.Examine(t.Context(), s.Client(t, func(o *redis.Options) { o.Password = password }), "redlatch")
		require.NoError(t, err)
		require.Len(t, found, 1)
		assert.Equal(t, []any{s.Addr(), "login", doctor.Bad, says}, []any{found[0].Server, found[0].Check, found[0].Level, found[0].Says})
		assert.NotEmpty(t, found[0].Fix)
	}
}

// The rights of the user in the guide are enough, and each of them is needed.
func TestDoctor_TheDocumentedRightsAreEnoughAndNeeded(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../../docs/operate/redis.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^ACL SETUSER doctor (.*)$`).FindSubmatch(guide)
	require.NotNil(t, line)
	rights := strings.Fields(string(line[1]))
	s, replica := redistest.Start(t), redistest.Start(t)
	admin := s.Client(t)
	host, port, err := net.SplitHostPort(s.Addr())
	require.NoError(t, err)
	require.NoError(t, replica.Client(t).ReplicaOf(t.Context(), host, port).Err())
	require.Eventually(t, func() bool {
		return strings.Contains(admin.Info(t.Context(), "replication").Val(), "connected_slaves:1")
	}, 10*time.Second, 10*time.Millisecond)
	denied := func(rights []string) (what []string) {
		words := []any{"acl", "setuser", "doctor"}
		for _, word := range rights {
			words = append(words, word)
		}
		require.NoError(t, admin.Do(t.Context(), words...).Err())
		require.NoError(t, admin.ACLLogReset(t.Context()).Err())
		client := s.Client(t, func(o *redis.Options) { o.Username, o.Password, o.DisableIdentity = "doctor", "PASSWORD", true })
		_, _ = doctor.Examine(t.Context(), client, "redlatch")
		entries, err := admin.ACLLog(t.Context(), 10).Result()
		require.NoError(t, err)
		for _, entry := range entries {
			what = append(what, entry.Reason+" "+entry.Object)
		}
		return what
	}
	assert.Empty(t, denied(rights))
	for i, right := range rights {
		if strings.ContainsAny(right[:1], "+~&") {
			assert.NotEmpty(t, denied(slices.Delete(slices.Clone(rights), i, i+1)), right)
		}
	}
}

func TestDoctor_ACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	found, err := doctor.Examine(ctx, c.Client(t), "redlatch")
	require.NoError(t, err)
	var servers []string
	for _, f := range found {
		assert.NotEqual(t, doctor.Bad, f.Level, "%+v", f)
		servers = append(servers, f.Server)
	}
	servers = slices.Compact(servers)
	assert.Len(t, servers, 4, "three primaries, and the checks of all servers")
	assert.True(t, slices.IsSorted(servers[:3]), servers)

	f := examine(t, c.Nodes()[0].Client(t))["mode"]
	assert.Equal(t, doctor.Bad, f.Level)
	assert.Contains(t, f.Fix, "redis+cluster://")
}

// refusing answers PING with an error.
type refusing struct {
	answers

	err error
}

func (r refusing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "ping" {
			return r.err
		}
		return next(ctx, cmd)
	}
}

func TestDoctor_ANodeOfAClusterThatFails(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	client := c.Client(t)
	client.OnNewNode(func(node *redis.Client) { node.AddHook(refusing{err: io.ErrUnexpectedEOF}) })
	_, err := doctor.Examine(t.Context(), client, "redlatch")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	for _, node := range c.Nodes() {
		require.NoError(t, node.Client(t).ConfigSet(t.Context(), "requirepass", "secret").Err())
	}
	found, err := doctor.Examine(t.Context(), c.Client(t), "redlatch")
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.Equal(t, []any{"", "login"}, []any{found[0].Server, found[0].Check})
}

// deaf does not run scripts that publish.
type deaf struct{ answers }

func (deaf) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "eval" && strings.Contains(cmd.Args()[1].(string), "PUBLISH") {
			return nil
		}
		return next(ctx, cmd)
	}
}

func TestDoctor_AMessageThatDoesNotArrive(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	client.AddHook(deaf{})
	f := examine(t, client)["messages"]
	assert.Equal(t, doctor.Warn, f.Level)
	assert.Equal(t, "a message that a script sent did not arrive within 2s", f.Says)
}

func TestDoctor_UnreachableServerIsAnError(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	_, err := doctor.Examine(t.Context(), client, "redlatch")
	require.ErrorContains(t, err, "refused")
}
