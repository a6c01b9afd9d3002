package redistest

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

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
	<-fired
	require.Equal(t, "3", direct.Get(ctx, key).Val(), "the server executed what was not answered")
	require.EqualValues(t, 4, c.Incr(ctx, key).Val(), "one reply only")
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
			<-held
			kill(p, c)
			require.ErrorIs(t, direct.Get(ctx, key).Err(), redis.Nil)
			release()
			require.Eventually(t, func() bool { return direct.Get(ctx, key).Val() == "late" }, 5*time.Second, time.Millisecond)
		})
	}
}
