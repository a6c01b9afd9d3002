package redistest

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// patience is how long the tests wait for what must happen, and instant for
// what must not.
const (
	patience = 5 * time.Second
	instant  = 50 * time.Millisecond
)

func await(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("did not happen in time")
	}
}

func proxied(t *testing.T) (*Proxy, *redis.Client) {
	t.Helper()
	s := Shared(t)
	c := s.Client(t)
	t.Cleanup(func() { c.Del(context.Background(), t.Name()) })
	return NewProxy(t, s.Addr()), c
}

func TestProxy_SwallowsTheNthReply(t *testing.T) {
	t.Parallel()
	p, direct := proxied(t)
	c := p.Client(t, once)
	ctx, key := t.Context(), t.Name()
	fired := p.SwallowReply(Contains(key), 3)

	for range 2 {
		require.NoError(t, c.Incr(ctx, key).Err())
		require.NoError(t, c.Ping(ctx).Err())
	}
	require.False(t, isClosed(fired))
	require.ErrorIs(t, c.Incr(ctx, key).Err(), io.EOF)
	await(t, fired)
	require.Equal(t, "3", direct.Get(ctx, key).Val(), "the server executed what was not answered")
	require.EqualValues(t, 4, c.Incr(ctx, key).Val(), "one reply only")
}

func TestProxy_SwallowsInsideAPipeline(t *testing.T) {
	t.Parallel()
	p, direct := proxied(t)
	ctx, key := t.Context(), t.Name()
	fired := p.SwallowReply(Command("DECR"), 1)
	// A raw connection: go-redis fails the whole pipeline when one reply is lost.
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "INCR %[1]s\r\n*2\r\n$4\r\nDecr\r\n$%[2]d\r\n%[1]s\r\nINCRBY %[1]s 5\r\n",
		key, len(key))
	require.NoError(t, err)
	await(t, fired)
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, ":1\r\n", string(got))
	require.Eventually(t, func() bool { return direct.Get(ctx, key).Val() == "5" }, patience, time.Millisecond)
}

func TestProxy_DistinguishesMessagesFromReplies(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		p, direct := proxied(t)
		ctx, channel := t.Context(), t.Name()
		c := p.Client(t, func(o *redis.Options) { o.Protocol = protocol })
		sub := c.Subscribe(ctx, channel)
		t.Cleanup(func() { _ = sub.Close() })
		_, err := sub.Receive(ctx)
		require.NoError(t, err)

		require.NoError(t, direct.Publish(ctx, channel, "one").Err())
		msg, err := sub.ReceiveMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, "one", msg.Payload)

		fired := p.SwallowReply(Command("ping"), 1)
		require.NoError(t, direct.Publish(ctx, channel, "two").Err())
		msg, err = sub.ReceiveMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, "two", msg.Payload)
		require.False(t, isClosed(fired))
		require.NoError(t, sub.Ping(ctx))
		_, err = sub.Receive(ctx)
		require.Error(t, err)
		await(t, fired)
	}
}

func TestProxy_HoldsARequest(t *testing.T) {
	t.Parallel()
	p, direct := proxied(t)
	c := p.Client(t, once)
	ctx, key := t.Context(), t.Name()
	held, release := p.HoldRequest(Contains(key))

	result := make(chan error, 1)
	go func() { result <- c.Set(ctx, key, "v", time.Minute).Err() }()
	await(t, held)
	require.NoError(t, c.Ping(ctx).Err(), "other connections flow")
	require.ErrorIs(t, direct.Get(ctx, key).Err(), redis.Nil)
	require.Empty(t, result)
	release()
	release()
	require.NoError(t, <-result)
	require.Equal(t, "v", direct.Get(ctx, key).Val())
}

func TestProxy_DeliversAHeldRequestOfADeadConnection(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(*Proxy, *redis.Client){
		"closed by the client": func(_ *Proxy, c *redis.Client) { _ = c.Close() },
		"cut":                  func(p *Proxy, _ *redis.Client) { p.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, direct := proxied(t)
			c := p.Client(t, impatient)
			ctx, key := t.Context(), t.Name()
			held, release := p.HoldRequest(Command("set"))
			require.Error(t, c.Set(ctx, key, "late", time.Minute).Err())
			await(t, held)
			kill(p, c)
			require.ErrorIs(t, direct.Get(ctx, key).Err(), redis.Nil)
			release()
			require.Eventually(t, func() bool { return direct.Get(ctx, key).Val() == "late" },
				patience, time.Millisecond)
		})
	}
}

func TestProxy_Freeze(t *testing.T) {
	t.Parallel()
	p, direct := proxied(t)
	ctx, key := t.Context(), t.Name()
	fresh := p.Client(t, once)
	c := p.Client(t, once)
	require.NoError(t, c.Ping(ctx).Err())

	p.Freeze()
	p.Freeze()
	results := make(chan error, 2)
	go func() { results <- c.Incr(ctx, key).Err() }()
	go func() { results <- fresh.Incr(ctx, key).Err() }()
	hasty := p.Client(t, impatient)
	require.Error(t, hasty.Incr(ctx, key).Err(), "no answer on a new connection")
	require.Never(t, func() bool { return len(results) > 0 || direct.Exists(ctx, key).Val() > 0 },
		instant, 5*time.Millisecond)

	p.Thaw()
	p.Thaw()
	require.NoError(t, <-results)
	require.NoError(t, <-results)
	require.NoError(t, c.Ping(ctx).Err())
}

func TestProxy_HalfOpen(t *testing.T) {
	t.Parallel()
	p, _ := proxied(t)
	c := p.Client(t, impatient)
	require.NoError(t, c.Ping(t.Context()).Err())
	p.HalfOpen()
	require.ErrorContains(t, c.Ping(t.Context()).Err(), "i/o timeout", "an open connection is silent")
	require.NoError(t, c.Ping(t.Context()).Err(), "a new one works")
}

// A request is delayed, and those of a pipeline together.
func TestProxy_Delays(t *testing.T) {
	t.Parallel()
	p, _ := proxied(t)
	c := p.Client(t, once)
	require.NoError(t, c.Ping(t.Context()).Err())
	p.Delay(instant)
	start := time.Now()
	_, err := c.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		for range 100 {
			pipe.Ping(t.Context())
		}
		return nil
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(start), instant)
	require.Less(t, time.Since(start), 50*instant)
}
