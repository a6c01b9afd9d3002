package redistest

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { os.Exit(Run(m)) }

func once(o *redis.Options) { o.MaxRetries = -1 }

func impatient(o *redis.Options) {
	o.MaxRetries, o.ReadTimeout = -1, 100*time.Millisecond
}

func TestServer_FailureToStartIsAnError(t *testing.T) {
	t.Parallel()
	binary := find(t)
	_, err := launch(binary, t.TempDir(), []string{"--no-such-directive", "x"})
	require.ErrorIs(t, err, errExited)
	require.ErrorContains(t, err, "no-such-directive", "the error has the server's own words")
}

// fakeTB records how a test ended, instead of ending it.
type fakeTB struct {
	testing.TB
	fatal, skip string
}

func (f *fakeTB) Helper() {}

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (f *fakeTB) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }

func (f *fakeTB) Skipf(format string, args ...any) {
	f.skip = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func record(tb testing.TB, f func(testing.TB)) *fakeTB {
	fake := &fakeTB{TB: tb}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(fake)
	}()
	<-done
	return fake
}

func TestServer_MissingBinary(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(serverEnv, "")
	for _, start := range []func(testing.TB){
		func(tb testing.TB) { Start(tb) },
		func(tb testing.TB) { Shared(tb) },
	} {
		t.Setenv(requireEnv, "")
		got := record(t, start)
		assert.Contains(t, got.skip, "make test")
		assert.Empty(t, got.fatal)

		t.Setenv(requireEnv, "1")
		got = record(t, start)
		assert.Contains(t, got.fatal, "apt-get install redis-server")
		assert.Empty(t, got.skip)
	}
}

func TestServer_CheckKeys(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := s.Client(t)
	ctx := t.Context()
	require.NoError(t, c.ZAdd(ctx, "redlatch:{k}:ended", redis.Z{Score: 5, Member: "dead"}).Err())
	require.NoError(t, c.Set(ctx, "asynq:x", "1", 0).Err())
	require.NoError(t, c.Set(ctx, "leaving", "1", 100*time.Millisecond).Err())
	require.NoError(t, checkKeys(s, 5*time.Second, []string{"asynq:"}), "what goes away in time is no leftover")

	for key, leave := range map[string]error{
		"redlatch:{k}":       c.HSet(ctx, "redlatch:{k}", "owner", "1").Err(),
		"redlatch:{q}:queue": c.ZAdd(ctx, "redlatch:{q}:queue", redis.Z{Score: 5, Member: "waiting"}).Err(),
		"redlatch:{s}:ended": c.Set(ctx, "redlatch:{s}:ended", "not a set", 0).Err(),
		"asynq:x":            nil,
	} {
		require.NoError(t, leave)
		require.ErrorContains(t, checkKeys(s, 0, nil), fmt.Sprintf("%q", key))
	}
}
