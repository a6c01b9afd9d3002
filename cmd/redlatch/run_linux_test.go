package main

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/internal/redistest"
)

// A killed redlatch renews no more: what it started must not go on without the lock.
func TestRun_TheCommandDiesWithRedlatch(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := newPipe(t)
	c := start(t, s.Addr(), "run", "k", "--", "sh", "-c", `exec 3>"$0"; while :; do echo command >&3; echo child >&3; sleep 0.02; done`, p.path)
	p.works(t)
	c.signal(t, syscall.SIGKILL)
	p.gone(t)
	assert.Equal(t, -1, c.code(t))
}
