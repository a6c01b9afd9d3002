package redistest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func once(o *redis.Options) { o.MaxRetries = -1 }

func impatient(o *redis.Options) {
	o.MaxRetries, o.ReadTimeout = -1, 100*time.Millisecond
}

func eventuallyRefused(t *testing.T, addr string) {
	t.Helper()
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, 15*time.Second, 5*time.Millisecond, "a server still listens")
}

func TestServer_Lifecycle(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := s.Client(t)
	ctx := t.Context()

	require.NoError(t, c.Set(ctx, "k", "v", 0).Err())
	opts, err := redis.ParseURL(s.URL())
	require.NoError(t, err)
	require.Equal(t, s.Addr(), opts.Addr)
	saved, err := c.ConfigGet(ctx, "save").Result()
	require.NoError(t, err)
	require.Empty(t, saved["save"])

	pid := s.PID()
	s.Kill()
	eventuallyRefused(t, s.Addr())
	s.Restart(t)
	require.NotEqual(t, pid, s.PID())
	require.ErrorIs(t, c.Get(ctx, "k").Err(), redis.Nil, "a restarted server is empty")

	s.Restart(t)
	require.NoError(t, c.Ping(ctx).Err(), "a running server restarts too")
}

func TestServer_ServersAreIndependent(t *testing.T) {
	t.Parallel()
	servers := StartN(t, 3)
	for _, s := range servers {
		c := s.Client(t)
		require.EqualValues(t, 1, c.Incr(t.Context(), "k").Val())
		require.Contains(t, c.Info(t.Context(), "replication").Val(), "role:master")
	}
}

func TestServer_Pause(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := s.Client(t, impatient)
	require.NoError(t, c.Ping(t.Context()).Err())

	require.NoError(t, s.Pause())
	err := c.Ping(t.Context()).Err()
	var netErr net.Error
	require.ErrorAs(t, err, &netErr)
	require.True(t, netErr.Timeout())

	require.NoError(t, s.Resume())
	require.NoError(t, s.Client(t).Ping(t.Context()).Err())
}

func TestServer_StopsWithItsTest(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, *Server){
		"running": func(*testing.T, *Server) {},
		"paused":  func(t *testing.T, s *Server) { require.NoError(t, s.Pause()) },
		"killed":  func(_ *testing.T, s *Server) { s.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			var addr string
			t.Run("user", func(t *testing.T) {
				s := Start(t)
				addr = s.Addr()
				prepare(t, s)
			})
			eventuallyRefused(t, addr)
		})
	}
}

func TestServer_WithArguments(t *testing.T) {
	t.Parallel()
	s := Start(t, "--requirepass", "secret", "--maxmemory", "10mb")
	require.ErrorContains(t, s.Client(t).Ping(t.Context()).Err(), "NOAUTH")
	c := s.Client(t, func(o *redis.Options) { o.Password = "secret" })
	require.NoError(t, c.Ping(t.Context()).Err())
}

func TestServer_ThatCannotStart(t *testing.T) {
	t.Parallel()
	binary := find(t)
	_, err := launch(binary, t.TempDir(), []string{"--no-such-directive", "x"})
	require.ErrorIs(t, err, errExited)
	require.ErrorContains(t, err, "no-such-directive", "the error has the server's own words")
}

func TestServer_DoesNotTakeAStrangerForItself(t *testing.T) {
	t.Parallel()
	stranger := Start(t)
	s := &Server{binary: find(t), dir: t.TempDir(), port: stranger.port}
	require.ErrorIs(t, s.boot(), errExited)
}

func TestServer_OutlivesTheThreadThatAskedForIt(t *testing.T) {
	t.Parallel()
	var s *Server
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The runtime ends a thread when the goroutine locked to it returns.
		runtime.LockOSThread()
		s = Start(t)
	}()
	<-done
	require.NoError(t, s.Client(t).Ping(t.Context()).Err())
	require.Never(t, func() bool { return isClosed(s.process().done) },
		100*time.Millisecond, 10*time.Millisecond)
}

const orphanEnv = "REDISTEST_ORPHAN"

// beOrphaned is this test binary run as the child that gets killed.
func beOrphaned() {
	dir, err := os.MkdirTemp(os.Getenv(orphanEnv), "")
	if err != nil {
		panic(err)
	}
	binary, err := lookup()
	if err != nil {
		panic(err)
	}
	s, err := launch(binary, dir, nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Addr())
	select {}
}

func TestServer_DiesWithAKilledTestBinary(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has parent-death signals")
	}
	find(t)
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.Command(self)
	child.Env = append(os.Environ(), orphanEnv+"="+t.TempDir())
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	addr := strings.TrimSpace(line)
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	require.NoError(t, c.Close())

	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	eventuallyRefused(t, addr)
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

func TestServer_AnotherBinary(t *testing.T) {
	given := filepath.Join(t.TempDir(), "no-server")
	t.Setenv(serverEnv, given)
	got := record(t, func(tb testing.TB) { Start(tb) })
	assert.Contains(t, got.fatal, given)
	assert.Empty(t, got.skip)

	require.NoError(t, os.WriteFile(given, []byte("#!/bin/sh\n"), 0o700))
	assert.Equal(t, given, find(t))
}

func TestServer_SharedIsOneServer(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	require.Same(t, s, Shared(t))
	require.NoError(t, s.Client(t).Ping(context.Background()).Err())
	_, err := os.Stat(filepath.Join(s.dir, "redis.log"))
	require.NoError(t, err)
}

func TestServer_CheckKeys(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := s.Client(t)
	ctx := t.Context()
	require.NoError(t, c.Set(ctx, "guard:{k}:last", "7 owner", 0).Err())
	require.NoError(t, c.ZAdd(ctx, "guard:{k}:queue", redis.Z{Score: -5, Member: "dead"}).Err())
	require.NoError(t, c.Set(ctx, "asynq:x", "1", 0).Err())
	require.NoError(t, c.Set(ctx, "leaving", "1", 100*time.Millisecond).Err())
	require.NoError(t, checkKeys(s, 5*time.Second, []string{"asynq:"}), "what goes away in time is no leftover")

	for key, leave := range map[string]error{
		"guard:{k}":       c.HSet(ctx, "guard:{k}", "owner", "1").Err(),
		"guard:{q}:queue": c.ZAdd(ctx, "guard:{q}:queue", redis.Z{Score: 5, Member: "waiting"}).Err(),
		"guard:{s}:queue": c.Set(ctx, "guard:{s}:queue", "not a queue", 0).Err(),
		"asynq:x":         nil,
	} {
		require.NoError(t, leave)
		require.ErrorContains(t, checkKeys(s, 0, nil), fmt.Sprintf("%q", key))
	}
}
