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
	"github.com/redlatch/redlatch/internal/redistest"
)

// The driver of Once: processes charge orders, and are killed at any moment. What was charged is a
// counter in Redis, which nothing that charges looks at.

const (
	chargerAddrEnv = "REDLATCH_TEST_CHARGER"    // the address of Redis
	chargerModeEnv = "REDLATCH_TEST_ATMOSTONCE" // "1": with AtMostOnce
	killsEnv       = "REDLATCH_TEST_KILLS"      // how many processes are killed in each mode

	chargers      = 4
	callsPerOrder = 6
	chargerTTL    = 300 * time.Millisecond
)

var errDeclined = errors.New("declined")

// TestOnceChargerProcess is one of the processes. In a normal run it does nothing.
func TestOnceChargerProcess(t *testing.T) {
	addr := os.Getenv(chargerAddrEnv)
	if addr == "" {
		return
	}
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	g, err := guard.New(client, guard.TTL(chargerTTL))
	require.NoError(t, err)
	defer g.Close()
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

// startCharger starts one, and gives what it says when it is dead: something went wrong.
func startCharger(t *testing.T, addr, mode string) (kill func(t *testing.T) (said []string)) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestOnceChargerProcess$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), chargerAddrEnv+"="+addr, chargerModeEnv+"="+mode)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	begun, ended := make(chan struct{}), make(chan struct{})
	var said []string
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			switch line := lines.Text(); {
			case line == "charger: begins":
				close(begun)
			case strings.HasPrefix(line, "charger: "):
				said = append(said, line)
			}
		}
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return func(t *testing.T) []string {
		t.Helper()
		select {
		case <-begun:
		case <-ended:
		}
		time.Sleep(rand.N(20 * time.Millisecond)) // it is killed at any moment
		require.NoError(t, cmd.Process.Kill())
		<-ended
		_ = cmd.Wait()
		return said
	}
}

func TestOnce_ProcessesThatAreKilled(t *testing.T) {
	kills := 12
	if text := os.Getenv(killsEnv); text != "" {
		var err error
		kills, err = strconv.Atoi(text)
		require.NoError(t, err, killsEnv)
	}
	for name, mode := range map[string]string{"at most once": "1", "default": "0"} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			rdb := s.Client(t)
			var kill [chargers]func(*testing.T) []string
			for i := range kill {
				kill[i] = startCharger(t, s.Addr(), mode)
			}
			for n := range kills {
				i := n % chargers
				require.Empty(t, kill[i](t))
				kill[i] = startCharger(t, s.Addr(), mode)
			}
			for i := range kill {
				require.Empty(t, kill[i](t))
			}
			count := func(key string, args ...any) int64 {
				n, err := rdb.Get(t.Context(), fmt.Sprintf(key, args...)).Int64()
				if !errors.Is(err, redis.Nil) {
					require.NoError(t, err)
				}
				return n
			}
			orders, again, lost := count("calls")/callsPerOrder, int64(0), count("lost")
			var unknown, total int64
			for order := range orders {
				charges, declined := count("charges:%d", order), count("declined:%d", order)
				total += charges
				again += max(charges-1-declined, 0)
				if mode == "1" {
					assert.LessOrEqual(t, charges, 1+declined, "order %d", order)
				}
				if strings.HasPrefix(rdb.Get(t.Context(), fmt.Sprintf("guard:{order:%d}:once", order)).Val(), "1 begun ") {
					unknown++
				}
			}
			// A process that is killed, or loses its lock, leaves one call in the middle.
			assert.LessOrEqual(t, again, int64(kills+chargers)+lost)
			t.Logf("%d kills, %d orders, %d charges, %d of them again after a crash, %d orders of unknown outcome, %d locks lost",
				kills+chargers, orders, total, again, unknown, lost)
			assert.Positive(t, orders)
			if kills >= 1000 && mode == "0" {
				assert.Positive(t, again, "no crash in the middle was followed by anybody")
			}
		})
	}
}
