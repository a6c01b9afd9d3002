package redisconn

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// When a caller leaves a conn, and with which error, in virtual time.

// scriptedClient does with a command what a test says.
type scriptedClient struct {
	redis.UniversalClient
	process func(ctx context.Context) error
}

func (c scriptedClient) Process(ctx context.Context, cmd redis.Cmder) error {
	err := c.process(ctx)
	if cmd, ok := cmd.(noRetryCmd); ok && err == nil {
		cmd.SetVal("done")
	}
	return err
}

var (
	errDial   = errors.New("dial server: not done")
	errClosed = errors.New("use of closed network connection")
)

func TestConn_TheCallerLeavesAtTheEndOfItsContext(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		ends, leaves time.Duration // of ctx; 0 = never
		takes        time.Duration
		waits        bool  // and until the conn is interrupted
		err          error // nil = that of the context that go-redis sees, or none
		want         error
		interrupted  bool
		after        time.Duration
	}{
		"a reply":                            {ends: second, takes: second / 2, after: second / 2},
		"a reply without a deadline":         {takes: time.Hour, after: time.Hour},
		"an error":                           {ends: second, takes: second / 2, err: io.EOF, want: io.EOF, after: second / 2},
		"an error a little late":             {ends: second, takes: second + 5*time.Millisecond, err: errDial, want: errDial, after: second + 5*time.Millisecond},
		"its time is up":                     {ends: second, waits: true, want: context.DeadlineExceeded, interrupted: true, after: second + expireLate},
		"its time is up: a dial says more":   {ends: second, waits: true, err: errDial, want: errDial, interrupted: true, after: second + expireLate},
		"it leaves":                          {ends: second, leaves: second / 2, waits: true, err: errClosed, want: context.Canceled, interrupted: true, after: second / 2},
		"it leaves, and nothing else ends":   {leaves: second / 2, waits: true, want: context.Canceled, interrupted: true, after: second / 2},
		"it has left when the reply comes":   {ends: second, leaves: second / 2, takes: 3 * second / 4, interrupted: true, after: 3 * second / 4},
		"its time was up when a reply comes": {ends: second, takes: 2 * second, interrupted: true, after: 2 * second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				conn := &conn{interrupted: make(chan struct{})}
				conn.dialled(ours)
				conn.client = scriptedClient{process: func(ctx context.Context) error {
					time.Sleep(c.takes)
					if c.waits {
						<-ctx.Done()
					}
					if c.waits && c.err == nil {
						return ctx.Err()
					}
					return c.err
				}}
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				if c.leaves > 0 {
					time.AfterFunc(c.leaves, leave)
				}
				sent := ctx
				if c.ends > 0 {
					deadline := clock.WithDeadline(ctx, time.Now().Add(c.ends))
					defer deadline.Cancel()
					sent = deadline
				}
				begun := time.Now()
				reply, interrupted, err := conn.do(sent, of("it"))
				assert.Equal(t, c.after, time.Since(begun))
				assert.Equal(t, c.interrupted, interrupted)
				assert.Equal(t, c.interrupted, task.IsClosed(conn.interrupted))
				if c.want == nil {
					require.NoError(t, err)
					assert.Equal(t, "done", reply)
				} else {
					require.ErrorIs(t, err, c.want)
				}
				assert.Equal(t, errors.Is(c.want, context.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded))

				// What reads or writes is closed for a caller that leaves; a deadline it heeds itself.
				closed := make(chan bool, 1)
				go func() {
					_, err := theirs.Read(make([]byte, 1))
					closed <- errors.Is(err, io.EOF)
				}()
				synctest.Wait()
				assert.Equal(t, c.leaves > 0, len(closed) == 1)
				if !c.interrupted { // the next caller may take its time
					conn.client = scriptedClient{process: func(context.Context) error { time.Sleep(time.Minute); return nil }}
					_, interrupted, err = conn.do(t.Context(), of("it"))
					require.NoError(t, err)
					assert.False(t, interrupted)
				}
				conn.interrupt() // once more, or for the first time
				conn.expire()
				assert.True(t, <-closed)

				late, other := net.Pipe()
				conn.dialled(late) // a dial that is done after that
				_, err = other.Read(make([]byte, 1))
				require.ErrorIs(t, err, io.EOF)
			})
		})
	}
}

// A conn that is to be discarded is done with: its caller leaves after it was interrupted.
func TestConn_IsInterruptedBeforeItsCallerLeaves(t *testing.T) {
	t.Parallel()
	conn := &conn{interrupted: make(chan struct{})}
	ctx, leave := context.WithCancel(t.Context())
	conn.client = scriptedClient{process: func(context.Context) error {
		conn.mu.Lock() // that takes a while
		time.AfterFunc(50*time.Millisecond, conn.mu.Unlock)
		leave()
		return nil
	}}
	_, interrupted, err := conn.do(ctx, of("it"))
	require.NoError(t, err)
	assert.True(t, interrupted)
	assert.True(t, task.IsClosed(conn.interrupted))
}
