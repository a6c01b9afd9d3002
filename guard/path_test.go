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

// mostFrames is how deep the library's own part of a stack may be when a command goes out.
const mostFrames = 12

// stackConn notes the stack of each write.
type stackConn struct {
	net.Conn
	note func(stack []runtime.Frame)
}

func (c stackConn) Write(b []byte) (int, error) {
	var callers [128]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	var stack []runtime.Frame
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		stack = append(stack, f)
	}
	c.note(stack)
	return c.Conn.Write(b)
}

// A command of one WithLock on a free key goes straight down to its socket: each package is
// entered once, the lower ones by the higher ones, and nothing is called back.
func TestPath_ACallGoesStraightDown(t *testing.T) {
	t.Parallel()
	const module = "github.com/redlatch/redlatch/"
	var mu sync.Mutex
	var stacks [][]string // of functions, the outermost first
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return stackConn{conn, func(stack []runtime.Frame) {
			var ours []string
			for _, f := range slices.Backward(stack) {
				if name, own := strings.CutPrefix(f.Function, module); own && !strings.HasPrefix(name, "guard_test.") {
					ours = append(ours, name)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			stacks = append(stacks, ours)
		}}, err
	}
	g := testenv.GuardOn(t, redistest.Start(t).Client(t, func(o *redis.Options) { o.Dialer = dial }))
	lock := func() {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		require.NoError(t, g.WithLock(ctx, guard.Key("k"), nothing))
	}
	lock() // it dials, loads the scripts and subscribes
	lock()
	mu.Lock()
	defer mu.Unlock()
	found := 0
	for _, stack := range stacks {
		if len(stack) == 0 || stack[0] != "guard.(*Guard).WithLock" {
			continue // the subscription's
		}
		found++
		assert.LessOrEqual(t, len(stack), mostFrames, stack)
		assert.Equal(t, []string{"guard", "cohort", "retry", "redisstore", "redisconn"}, packagesOf(stack), stack)
	}
	assert.GreaterOrEqual(t, found, 4, "two claims and two releases")
}

// packagesOf gives the packages of functions, as often as they are entered.
func packagesOf(stack []string) []string {
	packages := make([]string, 0, len(stack))
	for _, f := range stack {
		name, _, _ := strings.Cut(path.Base(f), ".")
		packages = append(packages, name)
	}
	return slices.Compact(packages)
}
