package main

import (
	"context"
	"fmt"
	"slices"
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
const ttl = 30 * time.Second

// library is one instance of a lock library.
type library interface {
	// Do waits for key until ctx ends, runs section while it holds it, and lets it go.
	// ctx has a deadline.
	Do(ctx context.Context, key string, section func()) error
	Close()
}

// holder is a library that renews what it holds.
type holder interface {
	// Hold takes a key and returns what stands for it.
	Hold(ctx context.Context, key string) (lease any, err error)
}

// The names of the libraries, in the order of the table.
const ours = "redlatch"

var (
	peers     = []string{"redsync", "redislock", "rueidislock"}
	libraries = append([]string{ours}, peers...)
	renewing  = []string{ours, "rueidislock"}
)

// open makes an instance of a job's library. Those built on go-redis share the process's client.
func open(j job, client *redis.Client) (library, error) {
	switch j.Library {
	case ours:
		options := []guard.Option{guard.TTL(ttl)}
		if j.Tuned {
			options = append(options, guard.AsyncRelease())
		}
		g, err := guard.New(client, options...)
		return redlatchLibrary{g}, err
	case "redsync":
		c, err := j.pipelined(client)
		return redsyncLibrary{rs: redsync.New(goredis.NewPool(c))}, err
	case "redislock":
		c, err := j.pipelined(client)
		return redislockLibrary{redislock.New(c)}, err
	case "rueidislock":
		return openRueidislock(rueidis.ClientOption{InitAddress: []string{client.Options().Addr}}, j.Instances)
	}
	return nil, fmt.Errorf("unknown library %q, have %v", j.Library, libraries)
}

// pipelined is what libraries on go-redis send by: the client, or the pipelines that it makes by
// itself of commands that go out at the same time. FullDuplex is meant for networks, and takes more
// time on loopback.
func (j job) pipelined(client *redis.Client) (redis.UniversalClient, error) {
	if !j.Tuned {
		return client, nil
	}
	options := redis.DefaultBlockingAutoPipelineOptions()
	options.FullDuplex = j.Far
	return client.AutoPipelineWithOptions(options)
}

type redlatchLibrary struct{ g *guard.Guard }

func (l redlatchLibrary) Do(ctx context.Context, key string, section func()) error {
	return l.g.WithLock(ctx, guard.Key(key), func(context.Context) error {
		section()
		return nil
	})
}

func (l redlatchLibrary) Hold(ctx context.Context, key string) (any, error) {
	return l.g.Acquire(ctx, guard.Key(key))
}

func (l redlatchLibrary) Close() { _ = l.g.Close() }

type redsyncLibrary struct {
	rs      *redsync.Redsync
	options []redsync.Option
}

// endless is the most tries that redsync takes: its default of 32 ends after 5 s.
const endless = 1 << 30

func (l redsyncLibrary) Do(ctx context.Context, key string, section func()) error {
	m := l.rs.NewMutex("redsync:"+key, append(l.options[:len(l.options):len(l.options)],
		redsync.WithExpiry(ttl), redsync.WithTries(endless))...)
	if err := m.LockContext(ctx); err != nil {
		return err
	}
	section()
	_, err := m.UnlockContext(context.WithoutCancel(ctx))
	return err
}

func (redsyncLibrary) Close() {}

type redislockLibrary struct{ c *redislock.Client }

func (l redislockLibrary) Do(ctx context.Context, key string, section func()) error {
	lock, err := l.c.Obtain(ctx, "redislock:"+key, ttl, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond), // as in its documentation
	})
	if err != nil {
		return err
	}
	section()
	return lock.Release(context.WithoutCancel(ctx))
}

func (redislockLibrary) Close() {}

type rueidislockLibrary struct{ l rueidislock.Locker }

// openRueidislock does as its documentation says for one Redis: a majority of one key,
// and NoLoopTracking, without which each of its renewals would cause the next one.
// TryNextAfter limits an attempt: its 20 ms pass under load, after which a caller is
// not woken any more.
func openRueidislock(client rueidis.ClientOption, instances int) (library, error) {
	if instances > 1 {
		client.ReadBufferEachConn, client.WriteBufferEachConn = 1<<12, 1<<12 // 1 MiB each otherwise
		client.RingScaleEachConn = 8
	}
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   client,
		KeyValidity:    ttl,
		KeyMajority:    1,
		NoLoopTracking: true,
		TryNextAfter:   2 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return rueidislockLibrary{l}, nil
}

func (l rueidislockLibrary) Do(ctx context.Context, key string, section func()) error {
	_, cancel, err := l.l.WithContext(ctx, key)
	if err != nil {
		return err
	}
	section()
	cancel() // waits for the release
	return nil
}

func (l rueidislockLibrary) Hold(ctx context.Context, key string) (any, error) {
	_, cancel, err := l.l.WithContext(ctx, key)
	return cancel, err
}

func (l rueidislockLibrary) Close() { l.l.Close() }

// sentBy are the commands that a library sends for its locks: scripts and, of the
// others, those that its scripts do not run. INFO commandstats does not tell the two
// apart.
func sentBy(name string) []string {
	sent := []string{"eval", "evalsha"}
	if name == "redsync" {
		sent = append(sent, "set") // its scripts run GET and DEL only
	}
	return slices.Clip(sent)
}
