package inspect

import (
	"context"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect/internal/glob"
	"github.com/redlatch/redlatch/guard/inspect/internal/meter"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
)

const (
	scanCount = 1000 // keys a slice of SCAN: about a millisecond of Redis
	lookBatch = 100  // locks a pipeline

	mostMasters = 16384 // a cluster has as many slots
)

// All shows the locks that are held, in no order, whose key matches a glob: * is any text,
// ? one character, [abc] and [a-z] one of some, [^a] none of some, \ takes the next
// character as it is. An empty match is every key; the longest has 512 bytes. Each lock is shown as Get shows it, one
// after the other: not all at one instant. What is held throughout is shown once; what
// comes or goes meanwhile may be. A record of a key that is free is not listed: Get shows it.
//
// It goes by SCAN over all keys of each master: for a person's question, and not to be
// polled. It stops when you do. Where a lock's hash is broken, there is a FormatError with
// its Key, and All continues; after any other error it stops.
func (i *Inspector) All(ctx context.Context, match string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if err := i.ready(ctx); err != nil {
			yield(Info{}, err)
			return
		}
		pattern, err := glob.New(match)
		if err != nil {
			yield(Info{}, &guard.OptionError{Option: "match", Reason: err.Error()})
			return
		}
		nodes, err := i.masters(ctx)
		if err != nil {
			yield(Info{}, failed("inspect", "", err))
			return
		}
		s := scan{i: i, match: pattern, names: i.newNames(), shown: make(map[string]struct{})}
		for _, node := range nodes {
			if !s.node(ctx, node, yield) {
				return
			}
		}
	}
}

// masters are the servers that have the keys.
func (i *Inspector) masters(ctx context.Context) ([]redis.Cmdable, error) {
	cluster, isCluster := i.client.(*redis.ClusterClient)
	if !isCluster {
		return []redis.Cmdable{i.client}, nil
	}
	found := make(chan redis.Cmdable, mostMasters)
	var failure error
	if err := heed(ctx, func() {
		failure = cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
			found <- node
			return nil
		})
		close(found)
	}); err != nil {
		return nil, err // failure may be about to be written
	}
	if failure != nil {
		return nil, failure
	}
	var nodes []redis.Cmdable
	for node := range found {
		nodes = append(nodes, node)
	}
	return nodes, nil
}

type scan struct {
	i     *Inspector
	match glob.Glob
	names *names
	shown map[string]struct{} // SCAN may say a key twice
}

// node shows the locks of one server. It returns false if that was the end.
func (s *scan) node(ctx context.Context, node redis.Cmdable, yield func(Info, error) bool) bool {
	pattern := s.match.Scan(s.i.prefix)
	for cursor := uint64(0); ; {
		begun := time.Now()
		locks, next, err := slice(ctx, node, cursor, pattern)
		meter.Note(ctx, begun, err)
		if err != nil {
			yield(Info{}, failed("inspect", "", err))
			return false
		}
		var keys []string
		for _, lock := range locks {
			key, ok := redisstore.KeyOf(s.i.prefix, lock)
			if _, twice := s.shown[key]; !ok || twice || !s.match.Matches(key) {
				continue
			}
			s.shown[key] = struct{}{}
			keys = append(keys, key)
		}
		for len(keys) > 0 {
			n := min(len(keys), lookBatch)
			if !s.show(ctx, keys[:n], yield) {
				return false
			}
			keys = keys[n:]
		}
		if cursor = next; cursor == 0 {
			return true
		}
	}
}

func slice(ctx context.Context, node redis.Cmdable, cursor uint64, pattern string) ([]string, uint64, error) {
	var scanned *redis.ScanCmd
	if err := heed(ctx, func() { scanned = node.ScanType(ctx, cursor, pattern, scanCount, "hash") }); err != nil {
		return nil, 0, err
	}
	return scanned.Result()
}

func (s *scan) show(ctx context.Context, keys []string, yield func(Info, error) bool) bool {
	calls := make([]*call, len(keys))
	for n, key := range keys {
		calls[n] = s.i.newLook(key)
	}
	begun := time.Now()
	if err := lookScript.run(ctx, s.i.client, calls); err != nil {
		yield(Info{}, failed("inspect", "", err))
		return false
	}
	meter.Note(ctx, begun, calls[0].err)
	infos, errs := make([]Info, len(keys)), make([]error, len(keys))
	for n, key := range keys {
		infos[n], errs[n] = s.i.read(key, calls[n])
	}
	s.names.put(ctx, infos...)
	for n, info := range infos {
		if errs[n] == nil && len(info.Holders) == 0 {
			continue // it was released meanwhile
		}
		if !yield(info, errs[n]) || errs[n] != nil && !isFormat(errs[n]) {
			return false
		}
	}
	return true
}
