package guard_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// refusals is for how long Redis refuses; REDLATCH_REFUSALS changes it.
const refusals = 6 * time.Second

// password is what a server wants, and what clients believe it wants.
type password struct {
	mu    sync.Mutex
	known string
}

func (p *password) provide() (user, pass string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return "worker", p.known
}

// rotate has the server want another password, cuts connections that have the former one, and tells clients 100 ms later.
func (p *password) rotate(t *testing.T, admin *redis.Client, n int) {
	next := fmt.Sprint("password ", n)
	assert.NoError(t, admin.Do(t.Context(), "acl", "setuser", "worker", "on", "resetpass", ">"+next, "~*", "&*", "+@all").Err())
	assert.NoError(t, admin.Do(t.Context(), "client", "kill", "user", "worker").Err())
	time.Sleep(100 * time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = next
}

// A password that rotates each second, a failed snapshot that has Redis refuse writes for 200 ms each second, and a proxy
// that answers each 50th command with an error: none of them runs work of Once twice, makes its outcome unknown, or leaves a lock.
func TestRefusals_OnceRunsWorkOnceWhateverRedisRefuses(t *testing.T) {
	t.Parallel()
	lasts := refusals
	if text := os.Getenv("REDLATCH_REFUSALS"); text != "" {
		var err error
		lasts, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	s := redistest.Start(t, "--save", "3600 1", "--stop-writes-on-bgsave-error", "no", "--dbfilename", "taken")
	admin := s.Client(t)
	dir := admin.ConfigGet(t.Context(), "dir").Val()["dir"]
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "taken"), 0o700)) // no snapshot can have the name
	_ = admin.BgSave(t.Context()).Err()
	refuseWrites := func(word string) {
		assert.NoError(t, admin.ConfigSet(t.Context(), "stop-writes-on-bgsave-error", word).Err())
	}
	refuseWrites("yes")
	testenv.Eventually(t, func() bool {
		err := admin.Set(t.Context(), "x", 1, time.Second).Err()
		return redis.HasErrorPrefix(err, "MISCONF")
	}, "no failed snapshot")
	refuseWrites("no")

	var pass password
	pass.rotate(t, admin, 0)
	proxy := redistest.NewProxy(t, s.Addr())
	login := func(o *redis.Options) { o.CredentialsProvider = pass.provide }
	guards := []*guard.Guard{testenv.GuardOn(t, proxy.Client(t, login)), testenv.GuardOn(t, proxy.Client(t, login))}

	over := make(chan struct{})
	var trouble, callers sync.WaitGroup
	trouble.Go(func() {
		for n := 1; ; n++ {
			proxy.FailReplies(50, "ERR upstream failure")
			pass.rotate(t, admin, n)
			refuseWrites("yes")
			time.Sleep(200 * time.Millisecond)
			refuseWrites("no")
			select {
			case <-over:
				proxy.FailReplies(0, "")
				return
			case <-time.After(600 * time.Millisecond):
			}
		}
	})
	const perKey = 5
	var effects sync.Map // key -> *atomic.Int64
	var done, failed atomic.Int64
	end := time.Now().Add(lasts)
	for i := range 50 {
		callers.Go(func() {
			g, opts := guards[i%2], []guard.OnceOption{}
			if i/perKey%2 == 0 {
				opts = append(opts, guard.AtMostOnce())
			}
			for round := 0; time.Now().Before(end); round++ {
				key := fmt.Sprintf("pay:%d:%d", i/perKey, round)
				counter, _ := effects.LoadOrStore(key, new(atomic.Int64))
				for tries := 0; ; tries++ {
					got, _, err := guard.Once(t.Context(), g, guard.Key(key), time.Hour, func(context.Context) (string, error) {
						counter.(*atomic.Int64).Add(1)
						time.Sleep(2 * time.Millisecond)
						return key, nil
					}, opts...)
					if err == nil {
						assert.Equal(t, key, got)
						done.Add(1)
						break
					}
					failed.Add(1)
					if !errors.Is(err, guard.ErrStore) || tries == 50 {
						assert.NoError(t, err)
						break
					}
				}
			}
		})
	}
	callers.Wait()
	close(over)
	trouble.Wait()
	keys := 0
	effects.Range(func(key, n any) bool {
		keys++
		assert.EqualValues(t, 1, n.(*atomic.Int64).Load(), key)
		return true
	})
	t.Logf("%d keys, %d calls, %d failed", keys, done.Load(), failed.Load())
	assert.Greater(t, keys, 20)
	testenv.Eventually(t, func() bool {
		locks := 0
		for _, key := range admin.Keys(t.Context(), "redlatch:{pay*}").Val() {
			if admin.Type(t.Context(), key).Val() == "hash" && len(key) > 0 && key[len(key)-1] == '}' {
				locks++
			}
		}
		return locks == 0
	}, "a lock stays longer than its release is repeated")
}
