package task_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/internal/task"
)

func TestGate_ClosesInTwoSteps(t *testing.T) {
	t.Parallel()
	g := task.NewGate()
	outer, _ := g.Enter(false)
	inner, open := g.Enter(true)
	assert.True(t, open)
	g.Drain()
	g.Drain()
	assert.True(t, task.IsClosed(outer) && task.IsClosed(g.Draining()))
	assert.False(t, task.IsClosed(inner) || task.IsClosed(g.Closed()), "work under work may wait until the Gate is closed")
	_, open = g.Enter(false)
	assert.False(t, open, "new work while it drains")
	_, open = g.Enter(true)
	assert.True(t, open, "work under work while it drains")
	assert.True(t, g.Close())
	assert.False(t, g.Close(), "only one is the first")
	assert.True(t, task.IsClosed(inner) && task.IsClosed(g.Closed()))
	_, open = g.Enter(true)
	assert.False(t, open, "no work gets in any more")

	other := task.NewGate()
	other.Close()
	assert.True(t, task.IsClosed(other.Draining()), "Close drains")
}

func TestGate_IdleWhenAllLeft(t *testing.T) {
	t.Parallel()
	g := task.NewGate()
	assert.True(t, task.IsClosed(g.Idle()), "no work has come yet")
	g.Enter(false)
	g.Enter(false)
	one, other := g.Idle(), g.Idle()
	g.Drain()
	g.Enter(false) // it is refused, and does not count
	g.Leave()
	assert.False(t, task.IsClosed(one), "one is inside")
	g.Leave()
	assert.True(t, task.IsClosed(one) && task.IsClosed(other) && task.IsClosed(g.Idle()))
	g.Enter(true)
	again := g.Idle()
	assert.False(t, task.IsClosed(again), "one came again")
	g.Leave()
	assert.True(t, task.IsClosed(again))
}
