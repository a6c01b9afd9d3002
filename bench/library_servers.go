package main

import (
	"errors"
	"fmt"

	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/quorum"
	"github.com/redlatch/redlatch/internal/redistest"
)

// quorate are the libraries that have locks of several independent servers.
var quorate = []string{ours, "redsync"}

// openOn makes a library on what its job is about: one server, a quorum, or the primary
// that sentinels watch.
func openOn(j job, client *redis.Client) (library, error) {
	switch {
	case len(j.Others) > 0:
		return openQuorum(j, client)
	case len(j.Watched) > 0 && j.Library == "rueidislock":
		return openRueidislock(rueidis.ClientOption{
			InitAddress: j.Watched, Sentinel: rueidis.SentinelOption{MasterSet: redistest.MasterName},
		}, 1)
	}
	return open(j, client)
}

// openQuorum has redsync return as soon as a majority has answered: without WithFailFast,
// each of its calls waits for the slowest server.
func openQuorum(j job, first *redis.Client) (library, error) {
	clients := []*redis.Client{first}
	for _, addr := range j.Others {
		clients = append(clients, redis.NewClient(&redis.Options{Addr: addr}))
	}
	q := quorumLibrary{others: clients[1:]}
	var err error
	switch j.Library {
	case ours:
		servers := make([]redis.UniversalClient, len(clients))
		for i, c := range clients {
			servers[i] = c
		}
		var store *quorum.Store
		if store, err = quorum.New(servers); err == nil {
			var g *guard.Guard
			g, err = guard.NewWithStore(store, guard.TTL(ttl))
			q.library, q.store = redlatchLibrary{g}, store
		}
	case "redsync":
		pools := make([]redsyncpool.Pool, len(clients))
		for i, c := range clients {
			pools[i] = goredis.NewPool(c)
		}
		q.library = redsyncLibrary{redsync.New(pools...), []redsync.Option{redsync.WithFailFast(true)}}
	default:
		err = fmt.Errorf("%s has no locks of several servers", j.Library)
	}
	if err != nil {
		return nil, errors.Join(err, q.closeOthers())
	}
	return q, nil
}

// quorumLibrary has the clients that the process's own does not stand for.
type quorumLibrary struct {
	library
	store  *quorum.Store // nil = it is another library's
	others []*redis.Client
}

func (q quorumLibrary) closeOthers() error {
	errs := make([]error, len(q.others))
	for i, c := range q.others {
		errs[i] = c.Close()
	}
	return errors.Join(errs...)
}

func (q quorumLibrary) Close() {
	q.library.Close()
	if q.store != nil {
		_ = q.store.Close()
	}
	_ = q.closeOthers()
}
