package redisconn

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type connTo struct {
	net.Conn
	addr   string
	closed atomic.Bool
}

func (c *connTo) RemoteAddr() net.Addr { return &net.UnixAddr{Name: c.addr} }
func (c *connTo) Close() error         { c.closed.Store(true); return nil }

// A dial that leads to another server than before closes the connections to the former one.
func TestPrimary_ANewPrimaryClosesConnectionsToTheFormer(t *testing.T) {
	p := &primary{conns: make(map[*primaryConn]struct{})}
	former, again, next := &connTo{addr: "former"}, &connTo{addr: "former"}, &connTo{addr: "next"}
	_, isRaw := p.accept(former).(syscall.Conn)
	assert.False(t, isRaw, "go-redis would ask it")
	assert.Equal(t, "former", p.server())
	require.NoError(t, p.accept(again).Close())
	assert.Len(t, p.conns, 1, "a closed connection is forgotten")
	p.accept(next)
	assert.True(t, former.closed.Load())
	assert.False(t, next.closed.Load())
	assert.Equal(t, "next", p.server())
	assert.Len(t, p.conns, 1)
}

// The error of a dial to the primary is the caller's.
func TestPrimary_ADialThatFails(t *testing.T) {
	fails := func(context.Context, string, string) (net.Conn, error) { return nil, io.EOF }
	p := &primary{conns: make(map[*primaryConn]struct{})}
	_, err := p.dialer(fails)(t.Context(), "tcp", failoverAddr)
	require.ErrorIs(t, err, io.EOF)
	assert.Equal(t, failoverAddr, p.server())
	_, err = p.dialer(func(context.Context, string, string) (net.Conn, error) { return &connTo{addr: "primary"}, nil })(t.Context(), "tcp", failoverAddr)
	require.NoError(t, err)
	assert.Equal(t, "primary", p.server())
}

// Sentinel is asked once a second, by one call. A call waits for a sentinel that hangs no longer than a quarter of a
// second, or half of its time.
func TestPrimary_ASentinelThatHangs(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 50 * time.Millisecond, 500 * time.Millisecond: 250 * time.Millisecond, time.Hour: 250 * time.Millisecond, 0: 250 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			dials, answer := 0, make(chan struct{})
			p := &primary{dial: func(context.Context, string, string) (net.Conn, error) { dials++; <-answer; return nil, io.EOF }}
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if limit > 0 {
				ctx, cancel = context.WithTimeout(ctx, limit)
			}
			defer cancel()
			begun := time.Now()
			p.check(ctx)
			assert.Equal(t, want, time.Since(begun), limit)
			p.check(ctx)
			assert.Equal(t, want, time.Since(begun), "it is asked already")
			close(answer)
			synctest.Wait()
			time.Sleep(checkInterval - 1)
			p.check(ctx)
			assert.Equal(t, 1, dials)
			time.Sleep(time.Nanosecond)
			p.check(t.Context())
			assert.Equal(t, 2, dials)
		})
	}
}

// A question that hangs, whatever the timeouts of the user's client, ends after a minute.
func TestPrimary_ASentinelThatHangsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, asked := time.Now(), make(chan context.Context, 1)
		p := &primary{dial: func(ctx context.Context, _, _ string) (net.Conn, error) { asked <- ctx; return nil, io.EOF }}
		p.check(t.Context())
		at, _ := (<-asked).Deadline()
		assert.Equal(t, begun.Add(time.Minute), at)
	})
}

func TestPrimary_ASentinelThatAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials, conn := 0, &connTo{addr: "primary"}
		p := &primary{conns: make(map[*primaryConn]struct{}), dial: func(context.Context, string, string) (net.Conn, error) { dials++; return conn, nil }}
		begun := time.Now()
		p.check(t.Context())
		assert.Zero(t, time.Since(begun))
		assert.True(t, conn.closed.Load())
		time.Sleep(checkInterval)
		p.accept(&connTo{addr: "primary"})
		p.check(t.Context())
		assert.Equal(t, 1, dials, "a dial of go-redis has just asked")
	})
}

// Calls and renewals ask Sentinel.
func TestPrimary_EachCommandAsksSentinel(t *testing.T) {
	t.Parallel()
	user := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})
	defer func() { require.NoError(t, user.Close()) }()
	c := Open(user, Options{AttemptTimeout: 10 * time.Millisecond})
	defer func() { require.NoError(t, c.Close()) }()
	asked := make(chan struct{}, 10)
	c.primary.dial = func(context.Context, string, string) (net.Conn, error) { asked <- struct{}{}; return nil, io.EOF }
	ended, end := context.WithCancel(t.Context()) // so that nothing is sent
	end()
	for _, send := range []func(){
		func() { _, _ = c.Do(ended, of("it")) },
		func() { _, _ = c.Call(ended, "ping") },
		func() { c.Pipeline(ended, []Command{of("it")}) },
	} {
		require.Eventually(t, func() bool { return !c.primary.checking.Load() }, 20*time.Second, time.Millisecond, "it is still asked")
		c.primary.checked.Store(0)
		send()
		select {
		case <-asked:
		case <-time.After(20 * time.Second):
			require.FailNow(t, "it is not asked")
		}
	}
}

// The errors of connections name the server, and with Sentinel the primary.
func TestPrimary_IsTheServerThatErrorsName(t *testing.T) {
	t.Parallel()
	single := &redis.Options{Addr: "server:1"}
	overTLS := &redis.Options{Addr: "server:1", TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	failover := &redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}}
	for want, user := range map[string]redis.UniversalClient{
		"server:1": redis.NewClient(single), "server:1 (TLS)": redis.NewClient(overTLS), "primary:1": redis.NewFailoverClient(failover),
	} {
		c := Open(user, Options{AttemptTimeout: time.Second})
		if c.primary != nil {
			c.primary.addr = "primary:1"
		}
		assert.Equal(t, want, c.calls.server())
		require.NoError(t, c.Close())
		require.NoError(t, user.Close())
	}
}

// A dialer that hangs is not waited for. A connection that it makes in the end is closed, and its panic is an error.
func TestHeeding_ADialerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn, late := make(chan struct{}), &connTo{}
		dial := heeding(func(context.Context, string, string) (net.Conn, error) { <-goOn; return late, nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		_, err := dial(ctx, "tcp", "server:1")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(begun))
		close(goOn)
		synctest.Wait()
		assert.True(t, late.closed.Load())
		_, err = heeding(func(context.Context, string, string) (net.Conn, error) { panic("user code") })(t.Context(), "tcp", "server:1")
		require.ErrorContains(t, err, "server:1")
	})
}

// A client that redisconn cannot copy is refused, with a reason.
func TestUnfit_SaysWhy(t *testing.T) {
	t.Parallel()
	single, ring := redis.NewClient(&redis.Options{}), redis.NewRing(&redis.RingOptions{})
	defer single.Close()
	defer ring.Close()
	for client, says := range map[redis.UniversalClient]string{
		new(redis.Client): "go-redis did not make", ring: "two holders", struct{ redis.UniversalClient }{single}: "give New the client itself",
	} {
		assert.Contains(t, Unfit(client, "New", "client"), says)
	}
	assert.Empty(t, Unfit(single, "New", "client"))
}
