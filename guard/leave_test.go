package guard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The first in line leaves while its question is on the wire, and the answer, which would
// have been yes, never arrives. The lock is the line's: whoever is next gets it.
func TestWhoLeavesWithAGrantOnTheWireLeavesItToTheLine(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p, client := s.proxy()
	g := s.guardOn(client)
	holder := s.acquire(s.guard(), "k")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := s.visitor(ctx, "first", g, "k")
	s.awaitQueue("k", 1)
	next := s.visitor(t.Context(), "next", g, "k")
	s.awaitInLine(g, 2)
	lost := p.SwallowReply(s.runs("acquire", 1), 1)
	s.release(holder)
	s.await(lost, "the grant is confirmed, and the reply lost")
	cancel()
	require.ErrorIs(t, first.out(), context.Canceled)
	next.awaitIn()
	next.pass()
	assert.Empty(t, s.queue("k"))
}
