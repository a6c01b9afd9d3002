package guard_test

import (
	"context"
	"net"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// stackConn notes this library's own functions on the stack of each write, the outermost first.
type stackConn struct {
	net.Conn
	note func(stack []string)
}

func (c stackConn) Write(b []byte) (int, error) {
	var callers [128]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	var stack []string
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if name, own := strings.CutPrefix(f.Function, "github.com/redlatch/redlatch/"); own && !strings.HasPrefix(name, "guard_test.") {
			stack = append([]string{name}, stack...)
		}
	}
	c.note(stack)
	return c.Conn.Write(b)
}

// A command of one WithLock on a free key goes straight down to its socket: each package is
// entered once, the lower ones by the higher ones, and nothing is called back.
func TestPath_ACallGoesStraightDown(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	found := 0
	note := func(stack []string) {
		if len(stack) == 0 || stack[0] != "guard.(*Guard).WithLock" {
			return // the subscription's
		}
		packages := make([]string, len(stack))
		for i, f := range stack {
			packages[i], _, _ = strings.Cut(path.Base(f), ".")
		}
		assert.LessOrEqual(t, len(stack), 12, stack)
		assert.Equal(t, []string{"guard", "cohort", "retry", "redisstore", "redisconn"}, slices.Compact(packages), stack)
		mu.Lock()
		defer mu.Unlock()
		found++
	}
	g := testenv.GuardOn(t, redistest.Start(t).Client(t, func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return stackConn{conn, note}, err
		}
	}))
	for range 2 { // the first one dials, loads the scripts and subscribes
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, g.WithLock(ctx, guard.Key("k"), nothing))
		cancel()
	}
	mu.Lock()
	defer mu.Unlock()
	assert.GreaterOrEqual(t, found, 4, "two claims and two releases")
}
