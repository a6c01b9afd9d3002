//go:build unix

package guard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// The nth reply to a script is lost, and the connection cut. The server has executed it each time. What is left is a
// record that lives for keep, and next to it there is nothing: no lock, no queue.
func TestOnce_ALostReplyIsAsGoodAsOneThatArrived(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"acquire", "release", "forget"} {
		for times := 1; times <= 3; times += 2 {
			t.Run(fmt.Sprintf("%s/%d", script, times), func(t *testing.T) {
				t.Parallel()
				r := testenv.New(t, redistest.Shared(t))
				require.NoError(t, r.Direct.ScriptLoad(t.Context(), testenv.ScriptSource(t, "forget")).Err())
				record, left := testenv.LockOf(t.Name())+":once", func() time.Duration {
					return r.Direct.PTTL(t.Context(), testenv.LockOf(t.Name())+":once").Val()
				}
				lost, runs := r.Lose(testenv.RunsScript(t, script), times), 0
				for i := range 3 {
					v, replayed, err := guard.Once(t.Context(), r.Guard, guard.Key(t.Name()), time.Minute, func(ctx context.Context) (string, error) {
						_, ok := guard.Earlier(ctx)
						assert.False(t, ok, "it is its own beginning")
						assert.InDelta(t, time.Minute, left(), float64(15*time.Second))
						runs++
						return "receipt", nil
					}, guard.AtMostOnce(), guard.Metadata("worker 7"))
					require.NoError(t, err)
					assert.Equal(t, "receipt", v)
					assert.Equal(t, i > 0, replayed)
				}
				assert.Equal(t, 1, runs)
				assert.InDelta(t, time.Minute, left(), float64(15*time.Second))
				assert.Empty(t, r.Hash(t, t.Name()))
				assert.Regexp(t, `^1 done \d+ 0 \S+ - \d+ 8 worker 7"receipt"$`, r.Direct.Get(t.Context(), record).Val())
				forgotten, err := r.Forget(t.Context(), guard.Key(t.Name()))
				require.NoError(t, err)
				assert.True(t, forgotten)
				testenv.Await(t, lost...)

				require.NoError(t, r.Direct.Set(t.Context(), record, "theirs", 0).Err())
				_, _, err = guard.Once(t.Context(), r.Guard, guard.Key(t.Name()), time.Minute, noRun[int](t))
				require.ErrorIs(t, err, guard.ErrStore, "a foreign record")
				require.NoError(t, r.WithLock(t.Context(), guard.Key(t.Name()), nothing, guard.NoWait()), "nothing was taken")
				require.NoError(t, r.Direct.Del(t.Context(), record).Err())
			})
		}
	}
}

// With memory full, no work begins, and nothing stays of the attempt. A result is kept all the same.
func TestOnce_MemoryFull(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Start(t))
	full := func(most string) { require.NoError(t, r.Direct.ConfigSet(t.Context(), "maxmemory", most).Err()) }
	try := func(key string, fn func(context.Context) (int, error)) (int, bool, error) {
		return guard.Once(t.Context(), r.Guard, guard.Key(key), time.Minute, fn, guard.AtMostOnce())
	}
	_, _, err := try("before", func(context.Context) (int, error) { full("1"); return 7, nil })
	require.NoError(t, err)
	v, replayed, err := try("before", noRun[int](t))
	require.NoError(t, err, "the result was kept, and is read")
	assert.True(t, replayed)
	assert.Equal(t, 7, v)
	_, _, err = try("after", noRun[int](t))
	require.ErrorIs(t, err, guard.ErrStore)
	full("0")
	_, replayed, err = try("after", gives(8))
	require.NoError(t, err)
	assert.False(t, replayed)
	for _, key := range []string{"before", "after"} {
		_, err = r.Forget(t.Context(), guard.Key(key))
		require.NoError(t, err)
	}
}

// A result that too few replicas know of is not confirmed, and its release is repeated.
func TestOnce_ReplicasKnowOfAResult(t *testing.T) {
	t.Parallel()
	primary, replica := testenv.Replicated(t)
	seen := testenv.NewWatcher()
	g := testenv.GuardOn(t, primary.Client(t), guard.Replicas(1, 100*time.Millisecond), guard.Observe(seen))
	_, _, err := guard.Once(t.Context(), g, guard.Key("a"), time.Minute, gives("receipt"))
	require.NoError(t, err)
	assert.Contains(t, replica.Client(t).Get(t.Context(), "guard:{a}:once").Val(), " done ", "before Once returned")
	_, _, err = guard.Once(t.Context(), g, k, time.Minute, func(context.Context) (string, error) { return "receipt", replica.Pause() })
	require.NoError(t, err, "the caller has its result")
	n, _ := seen.Count(guard.ReleaseFailure)
	assert.Equal(t, 1, n)
	require.NoError(t, replica.Resume())
	testenv.Eventually(t, func() bool { return primary.Client(t).Exists(t.Context(), "guard:{k}").Val() == 0 }, "not released")
}

const (
	chargerAddrEnv = "REDLATCH_TEST_CHARGER"    // the address of Redis
	chargerModeEnv = "REDLATCH_TEST_ATMOSTONCE" // "1": with AtMostOnce
	killsEnv       = "REDLATCH_TEST_KILLS"      // how many processes are killed in each mode

	chargers      = 4
	callsPerOrder = 6
)

var errDeclined = errors.New("declined")

// TestOnceChargerProcess is a process that charges orders until it is killed. In a normal run it does nothing.
func TestOnceChargerProcess(t *testing.T) {
	addr := os.Getenv(chargerAddrEnv)
	if addr == "" {
		return
	}
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	g := testenv.GuardOn(t, client, guard.TTL(300*time.Millisecond))
	opts := []guard.OnceOption{guard.Wait(time.Second)}
	if os.Getenv(chargerModeEnv) == "1" {
		opts = append(opts, guard.AtMostOnce())
	}
	fmt.Println("charger: begins")
	for {
		calls, err := client.Incr(t.Context(), "calls").Result()
		require.NoError(t, err)
		order := calls / callsPerOrder
		if rand.N(2) == 0 { // one whose caller may have died a while ago
			order = max(order-rand.N[int64](100), 0)
		}
		got, _, err := guard.Once(t.Context(), g, guard.Keyf("order:%d", order), time.Hour, func(ctx context.Context) (int64, error) {
			if err := client.Incr(ctx, fmt.Sprintf("charges:%d", order)).Err(); err != nil {
				return 0, err
			}
			time.Sleep(rand.N(8 * time.Millisecond))
			if rand.N(8) == 0 {
				return 0, errors.Join(errDeclined, client.Incr(ctx, fmt.Sprintf("declined:%d", order)).Err())
			}
			return order, nil
		}, opts...)
		switch {
		case err == nil && got != order:
			fmt.Println("charger: wrong result", got, "of order", order)
		case errors.Is(err, guard.ErrLost):
			require.NoError(t, client.Incr(t.Context(), "lost").Err())
		case err == nil, errors.Is(err, errDeclined), errors.Is(err, guard.ErrBusy), errors.Is(err, guard.ErrUnknownOutcome):
		default:
			fmt.Println("charger: error", err)
		}
	}
}

// startCharger starts one. What it says when it is dead went wrong.
func startCharger(t *testing.T, addr, mode string) (kill func() (said []string)) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestOnceChargerProcess$", "-test.timeout=5m")
	cmd.Env, cmd.Stderr = append(os.Environ(), chargerAddrEnv+"="+addr, chargerModeEnv+"="+mode), os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "charger: begins" {
	}
	return func() (said []string) {
		time.Sleep(rand.N(20 * time.Millisecond)) // it is killed at any moment
		require.NoError(t, cmd.Process.Kill())
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "charger: ") {
				said = append(said, lines.Text())
			}
		}
		_ = cmd.Wait()
		return said
	}
}

// Processes charge orders, and are killed at any moment. The charges are counted in Redis, and no charger looks at them.
func TestOnce_ProcessesThatAreKilled(t *testing.T) {
	t.Parallel()
	kills := 12
	if text := os.Getenv(killsEnv); text != "" {
		var err error
		kills, err = strconv.Atoi(text)
		require.NoError(t, err, killsEnv)
	}
	for name, mode := range map[string]string{"at most once": "1", "default": "0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			rdb := s.Client(t)
			var kill [chargers]func() []string
			for i := range kill {
				kill[i] = startCharger(t, s.Addr(), mode)
			}
			for n := range kills {
				i := n % chargers
				require.Empty(t, kill[i]())
				kill[i] = startCharger(t, s.Addr(), mode)
			}
			for i := range kill {
				require.Empty(t, kill[i]())
			}
			count := func(key string, args ...any) int64 {
				n, err := rdb.Get(t.Context(), fmt.Sprintf(key, args...)).Int64()
				if !errors.Is(err, redis.Nil) {
					require.NoError(t, err)
				}
				return n
			}
			orders, again := count("calls")/callsPerOrder, int64(0)
			for order := range orders {
				charges, declined := count("charges:%d", order), count("declined:%d", order)
				again += max(charges-1-declined, 0)
				if mode == "1" {
					assert.LessOrEqual(t, charges, 1+declined, "order %d", order)
				}
			}
			// A process that is killed, or loses its lock, leaves one call in the middle.
			assert.LessOrEqual(t, again, int64(kills+chargers)+count("lost"))
			assert.Positive(t, orders)
			if kills >= 1000 && mode == "0" {
				assert.Positive(t, again, "no crash in the middle was followed by anybody")
			}
		})
	}
}
