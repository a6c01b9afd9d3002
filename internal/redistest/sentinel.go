package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// MasterName is the name by which Sentinel knows the primary.
const MasterName = "primary"

const sentinels = 3

// Sentinel is a primary with two replicas, watched by three sentinels. A server that
// does not answer for a second is failed over. Its methods may be called from any
// goroutine.
type Sentinel struct {
	data      []*Server // the first began as the primary
	sentinels []*Server
	admin     map[*Server]*redis.Client // of both
}

// StartSentinel runs servers of tb's own, as Start does, and returns when all of
// them know each other and the replicas have caught up. Extra arguments go to the
// servers with the data.
func StartSentinel(tb testing.TB, args ...string) *Sentinel {
	tb.Helper()
	s := &Sentinel{
		data:  StartN(tb, 3, append([]string{"--repl-diskless-sync-delay", "0"}, args...)...),
		admin: make(map[*Server]*redis.Client),
	}
	primary := s.data[0]
	for i, d := range s.data {
		s.admin[d] = d.Client(tb, decisive)
		if i > 0 {
			// Not by an argument: it would be a replica of this primary again after a Restart.
			must(tb, "replicate", s.admin[d].ReplicaOf(context.Background(), "127.0.0.1", strconv.Itoa(primary.port)).Err())
		}
	}
	// A sentinel asks a primary for its replicas at first, and then every 10 s.
	eventually(tb, "wait for the replicas", func(ctx context.Context) error {
		return errors.Join(caughtUp(ctx, s.admin[s.data[1]]), caughtUp(ctx, s.admin[s.data[2]]))
	})
	for range sentinels {
		w := startSentinel(tb, primary)
		s.sentinels = append(s.sentinels, w)
		s.admin[w] = w.Client(tb, decisive)
	}
	eventually(tb, "wait for the sentinels", s.complete)
	return s
}

func startSentinel(tb testing.TB, primary *Server) *Server {
	tb.Helper()
	binary, dir := find(tb), tb.TempDir()
	config := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\n"+
		"sentinel down-after-milliseconds %[1]s 1000\n"+
		"sentinel failover-timeout %[1]s 5000\n", MasterName, primary.port)
	path := filepath.Join(dir, "sentinel.conf") // the sentinel writes it, too
	must(tb, "configure a sentinel", os.WriteFile(path, []byte(config), 0o600))
	s := &Server{binary: binary, dir: dir, sentinel: path}
	must(tb, "start a sentinel", s.launch())
	tb.Cleanup(s.stop)
	return s
}

// complete reports whether every sentinel knows the replicas and the others.
func (s *Sentinel) complete(ctx context.Context) error {
	for _, w := range s.sentinels {
		master, err := s.admin[w].Do(ctx, "sentinel", "master", MasterName).StringSlice()
		if err != nil {
			return err
		}
		known := make(map[string]string)
		for i := 0; i+1 < len(master); i += 2 {
			known[master[i]] = master[i+1]
		}
		if known["num-slaves"] != strconv.Itoa(len(s.data)-1) ||
			known["num-other-sentinels"] != strconv.Itoa(sentinels-1) || known["flags"] != "master" {
			return errForming
		}
	}
	return nil
}

// Servers are those with the data, whichever is the primary. A restarted server is a
// primary at first, whatever it was before.
func (s *Sentinel) Servers() []*Server { return s.data }

// Sentinels are the servers that watch the others.
func (s *Sentinel) Sentinels() []*Server { return s.sentinels }

// Addrs are where the sentinels are found.
func (s *Sentinel) Addrs() []string {
	addrs := make([]string, len(s.sentinels))
	for i, w := range s.sentinels {
		addrs[i] = w.Addr()
	}
	return addrs
}

// Client returns a failover client with go-redis's default options, changed by
// opts, and closes it when tb ends.
func (s *Sentinel) Client(tb testing.TB, opts ...func(*redis.FailoverOptions)) *redis.Client {
	tb.Helper()
	o := &redis.FailoverOptions{MasterName: MasterName, SentinelAddrs: s.Addrs()}
	for _, opt := range opts {
		opt(o)
	}
	client := redis.NewFailoverClient(o)
	closeAtEnd(tb, client)
	return client
}

// Primary is the server that most sentinels send clients to. It is nil while they
// do not agree.
func (s *Sentinel) Primary() *Server { return s.primary(context.Background()) }

func (s *Sentinel) primary(ctx context.Context) *Server {
	votes := s.votes(ctx)
	for _, d := range s.data {
		if votes[d.Addr()] > sentinels/2 {
			return d
		}
	}
	return nil
}

// votes is how many sentinels send clients to an address.
func (s *Sentinel) votes(ctx context.Context) map[string]int {
	votes := make(map[string]int)
	for _, w := range s.sentinels {
		addr, err := s.admin[w].Do(ctx, "sentinel", "get-master-addr-by-name", MasterName).StringSlice()
		if err == nil && len(addr) == 2 {
			votes[net.JoinHostPort(addr[0], addr[1])]++
		}
	}
	return votes
}

// AwaitPrimary waits until the primary is another than the given one.
func (s *Sentinel) AwaitPrimary(tb testing.TB, not *Server) (primary *Server) {
	tb.Helper()
	eventually(tb, "wait for another primary", func(ctx context.Context) error {
		if primary = s.primary(ctx); primary == nil || primary == not {
			return errForming
		}
		return nil
	})
	return primary
}

// DownAfter says for how long a primary has to be silent until it is failed over. A
// machine that is busy may keep a server that is well from answering for a second: Sentinel
// then replaces a primary that lives on.
func (s *Sentinel) DownAfter(tb testing.TB, d time.Duration) {
	tb.Helper()
	for _, w := range s.sentinels {
		eventually(tb, "down-after-milliseconds", func(ctx context.Context) error {
			return s.admin[w].Do(ctx, "sentinel", "set", MasterName, "down-after-milliseconds", d.Milliseconds()).Err()
		})
	}
}

// AwaitAgreement waits until every sentinel sends clients to the same server. A client of
// a lagging sentinel goes to the former primary, if that runs.
func (s *Sentinel) AwaitAgreement(tb testing.TB) {
	tb.Helper()
	eventually(tb, "wait until the sentinels agree", func(ctx context.Context) error {
		for _, votes := range s.votes(ctx) {
			if votes == sentinels {
				return nil
			}
		}
		return errForming
	})
}

// Failover has Sentinel replace the primary, which lives on as a replica.
func (s *Sentinel) Failover(tb testing.TB) {
	tb.Helper()
	must(tb, "failover", s.admin[s.sentinels[0]].Do(context.Background(), "sentinel", "failover", MasterName).Err())
}

// Isolate keeps what the primary does from now on from its replicas, until it is
// gone and the returned function lets them go on.
func (s *Sentinel) Isolate(tb testing.TB) (rejoin func()) {
	tb.Helper()
	primary := s.Primary()
	each := func(step func(*Server) error) {
		for _, d := range s.data {
			if d != primary {
				must(tb, "isolate", step(d))
			}
		}
	}
	each((*Server).Pause)
	must(tb, "isolate", s.admin[primary].ClientKillByFilter(context.Background(), "type", "replica").Err())
	return func() { each((*Server).Resume) }
}
