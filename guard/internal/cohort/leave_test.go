package cohort_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// The first in the queue leaves while its question is on the wire, and the answer, which would
// have been yes, never arrives. The lock is the queue's: whoever is next gets it.
func TestLeave_WhoLeavesWithAGrantOnTheWireLeavesItToTheQueue(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	p, client := s.Proxy()
	g := s.GuardOn(client)
	holder := s.Acquire(s.Guard(), "k")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := s.Caller(ctx, "first", g, "k")
	s.AwaitQueue("k", 1)
	next := s.Caller(t.Context(), "next", g, "k")
	s.AwaitQueued(g, 2)
	lost := p.SwallowReply(s.Runs("acquire", 1), 1)
	s.Release(holder)
	s.Await(lost, "the grant is confirmed, and the reply lost")
	cancel()
	require.ErrorIs(t, first.Out(), context.Canceled)
	next.AwaitIn()
	next.Pass()
	assert.Empty(t, s.Queue("k"))
}
