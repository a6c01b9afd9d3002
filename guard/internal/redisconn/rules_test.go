package redisconn

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/task"
)

// What a caller leaves while it queues never went out: the caller learns so, and nobody sends it.
func TestRules_ACommandThatIsLeftInTheQueueIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCombiner(&pool{}, 0, task.NewGroup(), nil)
		c.active = places
		ctx, leave := context.WithCancel(t.Context())
		var err error
		go func() { _, err = c.do(ctx, nil) }()
		synctest.Wait()
		require.Len(t, c.queue, 1)
		leave()
		synctest.Wait()
		require.ErrorIs(t, err, ErrNotSent)
		require.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, c.queue)
	})
}

// A near Redis gets two writes at a time, a distant one four. One that is busy stays near.
func TestRules_ANearRedisGetsTwoWritesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCombiner(&pool{}, 0, task.NewGroup(), nil)
		atOnce := func() (n int) {
			for c.enter(time.Now()) {
				n++
			}
			c.active = 0
			return n
		}
		took := func(d time.Duration) {
			begun := time.Now()
			time.Sleep(d)
			c.took(begun, d, nil)
		}
		c.took(time.Now(), 0, io.EOF)
		assert.Equal(t, places, atOnce(), "nothing is known yet")
		took(5 * time.Millisecond) // with a dial
		assert.Equal(t, places, atOnce())
		took(near - 1)
		assert.Equal(t, 2, atOnce())
		for range 100 {
			took(50 * time.Millisecond)
		}
		assert.Equal(t, 2, atOnce(), "it is busy")
		for range 300 {
			took(50 * time.Millisecond)
		}
		assert.Equal(t, places, atOnce(), "it was replaced by a distant one")
	})
}

// A write that Redis does not answer holds up nothing for long.
func TestRules_ASilentWriteToANearRedisHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCombiner(&pool{}, 0, task.NewGroup(), nil)
		c.took(time.Now(), near-1, nil)
		for range nearPlaces {
			require.True(t, c.enter(time.Now()))
		}
		time.Sleep(overdue - time.Nanosecond)
		assert.False(t, c.enter(time.Now()))
		time.Sleep(time.Nanosecond)
		assert.True(t, c.enter(time.Now()))
		assert.False(t, c.enter(time.Now()), "nothing is known yet of the new one")
	})
}

type connTo struct {
	net.Conn
	addr   string
	closed atomic.Bool
}

func (c *connTo) RemoteAddr() net.Addr { return &net.UnixAddr{Name: c.addr} }
func (c *connTo) Close() error         { c.closed.Store(true); return nil }

// A dial that takes long may lead to the node that was the primary when it began.
func TestRules_ASlowDialToAFormerPrimaryIsRefused(t *testing.T) {
	p := newPrimary(task.NewGroup())
	to := func(addr string) (*connTo, *primaryConn) {
		c := &connTo{addr: addr}
		return c, &primaryConn{&trackedConn{Conn: c, server: &server{}}, p}
	}
	before, first := to("former")
	require.True(t, p.accept(first, 1))
	_, second := to("new")
	require.True(t, p.accept(second, 3))
	assert.True(t, before.closed.Load(), "a connection to the former primary")
	_, slow := to("former")
	assert.False(t, p.accept(slow, 2))
	_, later := to("former")
	assert.True(t, p.accept(later, 4), "it is the primary again")
}

// The error of a dial to the primary is the caller's.
func TestRules_ADialToThePrimaryThatFails(t *testing.T) {
	fails := func(context.Context, string, string) (net.Conn, error) { return nil, io.EOF }
	_, err := newPrimary(task.NewGroup()).dialer(fails)(t.Context(), "tcp", failoverAddr)
	require.ErrorIs(t, err, io.EOF)
}

// lateCredentials are a user's that come when they are let go.
type lateCredentials struct {
	goOn  chan struct{}
	ended atomic.Bool // no listener gets new ones any more
}

func (c *lateCredentials) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	<-c.goOn
	return auth.NewBasicCredentials("", ""), func() error { c.ended.Store(true); return nil }, nil
}

// Nobody waits for what comes late any more: it is given back.
func TestRules_WhatComesLateIsGivenBack(t *testing.T) {
	t.Run("a subscription to credentials", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			user := &lateCredentials{goOn: make(chan struct{})}
			_, _, err := boundedCredentials{user, bounds{timeout: time.Second}}.Subscribe(nil)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			close(user.goOn)
			synctest.Wait()
			assert.True(t, user.ended.Load())
		})
	})
	t.Run("a connection by which a client asked for the primary", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			goOn, closed := make(chan struct{}), make(chan struct{})
			late := &connTo{addr: "primary"}
			client := redis.NewClient(&redis.Options{
				Addr: failoverAddr, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
				Dialer: func(context.Context, string, string) (net.Conn, error) { <-goOn; return late, nil },
			})
			defer client.Close()
			tasks := task.NewGroup()
			s := serverOf(client, closed, tasks)
			dialed := make(chan error, 1)
			go func() {
				_, err := s.primary.dial(t.Context(), "tcp", failoverAddr)
				dialed <- err
			}()
			synctest.Wait()
			close(closed)
			require.ErrorIs(t, <-dialed, redis.ErrClosed)
			close(goOn)
			synctest.Wait()
			assert.True(t, late.closed.Load())
		})
	})
}
