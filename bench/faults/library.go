package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/redlatch/redlatch/guard"
)

// ttl is how long every library's locks live in Redis without renewals.
const ttl = 2 * time.Second

const ours = "redlatch"

var libraries = []string{ours, "redsync", "redislock", "rueidislock"}

// library is a lock library, used as its documentation says, with renewal.
type library interface {
	lock(ctx context.Context, key string) (*lock, error) // ctx has a deadline
}

// lock is a lock that is held.
type lock struct {
	//nolint:containedctx // it is what the library returns
	ctx    context.Context // ends when the library, or its renewal, finds the lock lost
	fence  uint64          // 0: the library has none
	unlock func() error
}

// open makes the library of a task. Those built on go-redis get a client with its defaults.
func (t task) open() (library, error) {
	var config *tls.Config
	if t.Insecure {
		config = &tls.Config{InsecureSkipVerify: true}
	}
	if t.Library == "rueidislock" {
		return openRueidislock(rueidis.ClientOption{InitAddress: []string{t.Addr}, TLSConfig: config})
	}
	client := redis.NewClient(&redis.Options{Addr: t.Addr, TLSConfig: config})
	switch t.Library {
	case ours:
		g, err := guard.New(client, guard.TTL(ttl))
		return redlatchLibrary{g}, err
	case "redsync":
		return redsyncLibrary{redsync.New(goredis.NewPool(client))}, nil
	case "redislock":
		return redislockLibrary{redislock.New(client)}, nil
	}
	return nil, errors.Join(fmt.Errorf("unknown library %q, have %v", t.Library, libraries), client.Close())
}

// keyOf is the name of a lock in Redis.
func keyOf(library, key string) string {
	switch library {
	case ours:
		return "redlatch:{" + key + "}"
	case "rueidislock":
		return "rueidislock:0:" + key
	}
	return key
}

type redlatchLibrary struct{ g *guard.Guard }

func (l redlatchLibrary) lock(ctx context.Context, key string) (*lock, error) {
	lease, err := l.g.Acquire(ctx, guard.Key(key))
	if err != nil {
		return nil, err
	}
	return &lock{lease.Context(), lease.Fence(), func() error { return lease.Release(context.Background()) }}, nil
}

// renewing calls extend every third of the ttl, and ends the context that it returns when
// that fails. It is the watchdog of redislock's README; redsync has Extend, and no advice.
func renewing(ctx context.Context, extend func(context.Context) error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		tick := time.NewTicker(ttl / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := extend(ctx); err != nil {
					cancel()
					return
				}
			}
		}
	}()
	return ctx, cancel
}

type redsyncLibrary struct{ rs *redsync.Redsync }

// endless is the most tries that redsync takes: its default of 32 ends after 5 s.
const endless = 1 << 30

func (l redsyncLibrary) lock(ctx context.Context, key string) (*lock, error) {
	m := l.rs.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(endless))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	work, cancel := renewing(ctx, func(ctx context.Context) error {
		ok, err := m.ExtendContext(ctx)
		if err == nil && !ok {
			err = redsync.ErrExtendFailed
		}
		return err
	})
	return &lock{work, 0, func() error {
		cancel()
		_, err := m.Unlock()
		return err
	}}, nil
}

type redislockLibrary struct{ c *redislock.Client }

func (l redislockLibrary) lock(ctx context.Context, key string) (*lock, error) {
	held, err := l.c.Obtain(ctx, key, ttl, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond), // as in its documentation
	})
	if err != nil {
		return nil, err
	}
	work, cancel := renewing(ctx, func(ctx context.Context) error { return held.Refresh(ctx, ttl, nil) })
	return &lock{work, 0, func() error {
		cancel()
		return held.Release(context.Background())
	}}, nil
}

type rueidislockLibrary struct{ l rueidislock.Locker }

// openRueidislock does as its documentation says for one Redis. TryNextAfter bounds an
// attempt: on a busy machine, its 20 ms are too short.
func openRueidislock(client rueidis.ClientOption) (library, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: client, KeyValidity: ttl, KeyMajority: 1, NoLoopTracking: true, TryNextAfter: ttl / 10,
	})
	if err != nil {
		return nil, err
	}
	return rueidislockLibrary{l}, nil
}

func (l rueidislockLibrary) lock(ctx context.Context, key string) (*lock, error) {
	work, cancel, err := l.l.WithContext(ctx, key)
	if err != nil {
		return nil, err
	}
	return &lock{work, 0, func() error {
		cancel() // waits for the release, and says nothing
		return nil
	}}, nil
}

// named are the errors that the library documents for callers.
var named = []struct {
	err  error
	name string
}{
	{guard.ErrLost, "ErrLost"},
	{guard.ErrBusy, "ErrBusy"},
	{guard.ErrStore, "ErrStore"},
	{redsync.ErrLockAlreadyExpired, "ErrLockAlreadyExpired"},
	{redsync.ErrFailed, "ErrFailed"},
	{redislock.ErrNotObtained, "ErrNotObtained"},
	{redislock.ErrLockNotHeld, "ErrLockNotHeld"},
	{rueidislock.ErrNotLocked, "ErrNotLocked"},
	{context.Canceled, "context.Canceled"},
	{context.DeadlineExceeded, "context.DeadlineExceeded"},
}

// nameOf returns the error as a caller recognises it.
func nameOf(err error) string {
	if err == nil {
		return ""
	}
	var names []string
	for _, n := range named {
		if errors.Is(err, n.err) {
			names = append(names, n.name)
		}
	}
	var taken *redsync.ErrTaken
	var network net.Error
	switch {
	case len(names) > 0:
		return strings.Join(names, " + ")
	case errors.As(err, &taken):
		return "ErrTaken"
	case errors.As(err, &network), errors.Is(err, io.EOF), rueidis.IsRedisNil(err):
		return "network error"
	}
	return err.Error()
}
