package task_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/internal/task"
)

func TestGate_ClosesInTwoSteps(t *testing.T) {
	t.Parallel()
	g := task.NewGate()
	enter := func(nested bool) bool {
		_, open := g.Enter(nested)
		return open
	}
	assert.True(t, enter(false))
	assert.True(t, enter(true))
	g.Drain()
	g.Drain()
	assert.True(t, task.IsClosed(g.Draining()))
	assert.False(t, task.IsClosed(g.Closed()))
	assert.False(t, enter(false), "new work while it drains")
	assert.True(t, enter(true), "work under work while it drains")
	assert.True(t, g.Close())
	assert.False(t, g.Close(), "only one is the first")
	assert.True(t, task.IsClosed(g.Closed()))
	assert.False(t, enter(true), "no work gets in any more")
}

func TestGate_CloseDrains(t *testing.T) {
	t.Parallel()
	g := task.NewGate()
	g.Close()
	assert.True(t, task.IsClosed(g.Draining()))
	g.Drain()
}

func TestGate_StopIsThatOfTheWork(t *testing.T) {
	t.Parallel()
	g := task.NewGate()
	outer, _ := g.Enter(false)
	inner, _ := g.Enter(true)
	g.Drain()
	assert.True(t, task.IsClosed(outer))
	assert.False(t, task.IsClosed(inner), "work under work may wait until the Group is closed")
	g.Close()
	assert.True(t, task.IsClosed(inner))
}

func TestGate_IdleWhenAllLeft(t *testing.T) {
	t.Parallel()
	g := task.NewGate()
	assert.True(t, task.IsClosed(g.Idle()), "no work has come yet")
	const n = 100
	for range n {
		g.Enter(false)
	}
	one, other := g.Idle(), g.Idle()
	g.Drain()
	_, open := g.Enter(false)
	assert.False(t, open, "who is refused does not count")
	var all sync.WaitGroup
	for range n - 1 {
		all.Go(g.Leave)
	}
	all.Wait()
	assert.False(t, task.IsClosed(one), "one is inside")
	g.Leave()
	assert.True(t, task.IsClosed(one))
	assert.True(t, task.IsClosed(other))
	assert.True(t, task.IsClosed(g.Idle()))
	g.Enter(true)
	again := g.Idle()
	assert.False(t, task.IsClosed(again), "one came again")
	g.Leave()
	assert.True(t, task.IsClosed(again))
}
