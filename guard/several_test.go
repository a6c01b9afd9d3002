package guard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/guard/quorum"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Callers in several processes take 1 to 3 of 6 keys at once, for as long as severalForEnv says
// (make several FOR=1m), or shortly.
const (
	severalForEnv = "REDLATCH_SEVERAL_FOR"
	severalJobEnv = "REDLATCH_TEST_SEVERAL" // this process is one of them

	severalProcesses = 4
	severalCallers   = 24 // of each process
	severalKeys      = 6
)

// severalJob is what a process is to do.
type severalJob struct {
	Kind   string        `json:"kind"` // one, cluster, quorum
	Addrs  []string      `json:"addrs"`
	Prefix string        `json:"prefix"` // of the keys
	For    time.Duration `json:"for"`
}

// severalTally is what its callers did.
type severalTally struct {
	Served   [severalCallers]int `json:"served"` // calls of each
	Overlaps int                 `json:"overlaps"`
	Failures []string            `json:"failures"`
}

// TestSeveralProcess is one of the processes. In a normal run it does nothing.
func TestSeveralProcess(t *testing.T) {
	text := os.Getenv(severalJobEnv)
	if text == "" {
		return
	}
	var job severalJob
	require.NoError(t, json.Unmarshal([]byte(text), &job))
	g, side, stop, err := job.connect()
	require.NoError(t, err)
	tally := job.work(t.Context(), g, side)
	require.NoError(t, g.Close())
	stop()
	out, err := json.Marshal(tally)
	require.NoError(t, err)
	fmt.Printf("several: %s\n", out)
}

// connect also gives a client for what the work does beside the locks.
func (j severalJob) connect() (g *guard.Guard, side redis.UniversalClient, stop func(), err error) {
	var clients []redis.UniversalClient
	if j.Kind == "cluster" {
		clients = append(clients, redis.NewClusterClient(&redis.ClusterOptions{Addrs: j.Addrs}))
	} else {
		for _, addr := range j.Addrs {
			clients = append(clients, redis.NewClient(&redis.Options{Addr: addr}))
		}
	}
	closeStore := func() error { return nil }
	stop = func() {
		_ = closeStore()
		for _, c := range clients {
			_ = c.Close()
		}
	}
	opts := []guard.Option{guard.StoreTimeout(30 * time.Second)} // a busy machine is no outage
	if j.Kind == "quorum" {
		var store *quorum.Store
		if store, err = quorum.New(clients); err == nil {
			closeStore = store.Close
			g, err = guard.NewWithStore(store, opts...)
		}
	} else {
		g, err = guard.New(clients[0], opts...)
	}
	return g, clients[0], stop, err
}

func (j severalJob) work(ctx context.Context, g *guard.Guard, side redis.UniversalClient) (tally severalTally) {
	var mu sync.Mutex
	var callers sync.WaitGroup
	end := time.Now().Add(j.For)
	for i := range severalCallers {
		callers.Go(func() {
			for first := true; first || time.Now().Before(end); first = false {
				overlaps, err := j.call(ctx, g, side)
				mu.Lock()
				tally.Overlaps += overlaps
				if err == nil {
					tally.Served[i]++
				} else if len(tally.Failures) < 5 {
					tally.Failures = append(tally.Failures, err.Error())
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	callers.Wait()
	return tally
}

// call takes some of the keys, and looks whether anybody else is inside of one of them.
func (j severalJob) call(ctx context.Context, g *guard.Guard, side redis.UniversalClient) (overlaps int, err error) {
	var names []string
	var keys []guard.KeyFunc
	for _, i := range rand.Perm(severalKeys)[:1+rand.IntN(3)] {
		name := fmt.Sprintf("%s:%d", j.Prefix, i)
		names, keys = append(names, name), append(keys, guard.Key(name))
	}
	err = g.WithLocks(ctx, keys, func(ctx context.Context) error {
		inside, err := count(ctx, side, names, 1)
		for _, n := range inside {
			if n != 1 {
				overlaps++
			}
		}
		for _, name := range names {
			if _, ok := guard.Held(ctx, name); !ok {
				err = errors.Join(err, errors.New("a key is not held"))
			}
		}
		_, left := count(ctx, side, names, -1)
		return errors.Join(err, left)
	}, guard.Wait(2*time.Minute))
	return overlaps, err
}

// count adds to who is inside of each key.
func count(ctx context.Context, side redis.UniversalClient, names []string, by int64) ([]int64, error) {
	replies, err := side.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, name := range names {
			p.IncrBy(ctx, "several:inside:"+name, by)
		}
		return nil
	})
	var all []int64
	for _, reply := range replies {
		all = append(all, reply.(*redis.IntCmd).Val())
	}
	return all, err
}

// run runs the processes, and says what came of it.
func (j severalJob) run(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(j)
	require.NoError(t, err)
	tallies := make([]severalTally, severalProcesses)
	errs := make([]error, severalProcesses)
	var all sync.WaitGroup
	for i := range severalProcesses {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSeveralProcess$", "-test.count=1", "-test.timeout=30m")
			cmd.Env = append(os.Environ(), severalJobEnv+"="+string(text))
			out, err := cmd.CombinedOutput()
			_, line, found := bytes.Cut(out, []byte("several: "))
			if err != nil || !found {
				errs[i] = fmt.Errorf("%w: %s", err, out)
				return
			}
			line, _, _ = bytes.Cut(line, []byte("\n"))
			errs[i] = json.Unmarshal(line, &tallies[i])
		})
	}
	all.Wait()
	calls := 0
	for i, tally := range tallies {
		require.NoError(t, errs[i])
		assert.Empty(t, tally.Failures)
		assert.Zero(t, tally.Overlaps, "two are inside of one key")
		for _, served := range tally.Served {
			calls += served
			assert.Positive(t, served, "a caller was never served")
		}
	}
	t.Logf("%s: %d calls", j.Kind, calls)
}

func severalFor(t *testing.T, short time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(severalForEnv)
	if text == "" {
		return short
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, severalForEnv)
	return d
}

// leftOf gives what is left of locks on a server: who holds, and who waits.
func leftOf(t *testing.T, s *redistest.Server, keys int, prefix string) (left []string) {
	t.Helper()
	client := s.Client(t)
	for i := range keys {
		lock := testenv.LockOf(fmt.Sprintf("%s:%d", prefix, i))
		if client.Exists(t.Context(), lock).Val() > 0 {
			left = append(left, lock)
		}
		if client.ZCount(t.Context(), lock+":queue", "(0", "+inf").Val() > 0 {
			left = append(left, lock+":queue")
		}
	}
	return left
}

func TestSeveral_KeysInSeveralProcesses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	job := severalJob{Kind: "one", Addrs: []string{s.Addr()}, Prefix: "several", For: severalFor(t, time.Second)}
	job.run(t)
	assert.Empty(t, leftOf(t, s, severalKeys, job.Prefix), "left behind")
}

// The keys are in different slots.
func TestSeveral_KeysOfAClusterInSeveralProcesses(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	job := severalJob{Kind: "cluster", Prefix: "several", For: severalFor(t, time.Second) / 4}
	primaries := map[*redistest.Server]bool{}
	for i := range severalKeys {
		primaries[c.Primary(fmt.Sprintf("{several:%d}", i))] = true
	}
	require.Greater(t, len(primaries), 1, "the keys are on several servers")
	for _, s := range c.Nodes() {
		job.Addrs = append(job.Addrs, s.Addr())
	}
	job.run(t)
	testenv.ClusterIsClean(t, c)
}

func TestSeveral_KeysOfAQuorumInSeveralProcesses(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	job := severalJob{Kind: "quorum", Prefix: "several", For: severalFor(t, time.Second) / 4}
	for _, s := range q.Servers {
		job.Addrs = append(job.Addrs, s.Addr())
	}
	job.run(t)
	for i := range severalKeys {
		key := fmt.Sprintf("several:%d", i)
		testenv.Eventually(t, func() bool { return q.Holders(t, key) == 0 }, "left behind: "+key)
	}
}

// Two that nest by hand in the order of the call wait for each other: the load above is one
// that needs an order.
func TestSeveral_LocksNestedInTwoOrdersWaitForEachOther(t *testing.T) {
	t.Parallel()
	g := testenv.GuardOn(t, redistest.Shared(t).Client(t), guard.Wait(300*time.Millisecond))
	prefix := strings.ReplaceAll(t.Name(), "/", ":")
	both := make(chan struct{})
	var inside sync.WaitGroup
	inside.Add(2)
	go func() { inside.Wait(); close(both) }()
	nest := func(outer, inner string) error {
		return g.WithLock(t.Context(), guard.Key(prefix+outer), func(ctx context.Context) error {
			inside.Done()
			<-both
			return g.WithLock(ctx, guard.Key(prefix+inner), testenv.Nothing)
		})
	}
	errs := make(chan error, 2)
	go func() { errs <- nest("a", "b") }()
	go func() { errs <- nest("b", "a") }()
	first, second := <-errs, <-errs
	require.ErrorIs(t, errors.Join(first, second), guard.ErrBusy)
}
