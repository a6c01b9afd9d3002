package doctor_test

import (
	"context"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
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
}

// answers changes replies of a server.
type answers struct {
	info   string // in place of the reply to INFO
	config string // of min-replicas-to-write
	lag    time.Duration
	slow   time.Duration // of each PING
}

func (answers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (answers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a answers) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "ping" {
			time.Sleep(a.slow)
		}
		switch cmd := cmd.(type) {
		case *redis.StringCmd:
			if cmd.Name() == "info" {
				cmd.SetVal(a.info)
			}
		case *redis.MapStringStringCmd:
			cmd.SetVal(map[string]string{"min-replicas-to-write": a.config})
		case *redis.TimeCmd:
			cmd.SetVal(cmd.Val().Add(-a.lag))
		}
		return err
	}
}

// A field that INFO lacks is a note, or no finding.
func TestDoctor_ReadsInfoAndTime(t *testing.T) {
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
		{answers{info: "connected_slaves:2\r\n", config: "3"}, "replication", doctor.Bad, "every write is refused"},
		{answers{info: "connected_slaves:2\r\n"}, "replication", doctor.Note, "this user may not read "},
		{answers{slow: 51 * time.Millisecond}, "latency", doctor.Warn, "a round trip takes "},
		{answers{lag: time.Minute}, "clock", doctor.Warn, ""},
		{answers{lag: -time.Minute}, "clock", doctor.Warn, ""},
	} {
		client := s.Client(t)
		client.AddHook(c.answers)
		f := examine(t, client)[c.check]
		assert.Equal(t, c.level, f.Level, "%+v %+v", c, f)
		assert.Contains(t, f.Says, c.says)
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
	servers := map[string]bool{}
	for _, f := range found {
		assert.NotEqual(t, doctor.Bad, f.Level, "%+v", f)
		servers[f.Server] = true
	}
	assert.Len(t, servers, 4, "three primaries, and the checks of all servers")

	f := examine(t, c.Nodes()[0].Client(t))["mode"]
	assert.Equal(t, doctor.Bad, f.Level)
	assert.Contains(t, f.Fix, "redis+cluster://")
}

func TestDoctor_UnreachableServerIsAnError(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	_, err := doctor.Examine(t.Context(), client, "redlatch")
	require.ErrorContains(t, err, "refused")
}
