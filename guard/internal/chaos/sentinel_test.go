package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

// sentinels is one primary, its replicas, and the Sentinels that watch them.
type sentinels struct {
	servers  []*redistest.Server
	admins   []*redis.Client
	watchers []*redistest.Server
	asked    []*redis.Client // the watchers
}

func startSentinel(t *testing.T, _ int, args ...string) ([]*redistest.Server, group) {
	t.Helper()
	s := redistest.StartSentinel(t, args...)
	g := &sentinels{servers: s.Servers(), watchers: s.Sentinels()}
	for _, server := range g.servers {
		g.admins = append(g.admins, server.Client(t, impatient))
	}
	for _, w := range g.watchers {
		c := w.Client(t, impatient)
		g.asked = append(g.asked, c)
		// There is no other failover for twice that time, but by an order.
		require.NoError(t, c.Do(t.Context(), "sentinel", "set", redistest.MasterName, "failover-timeout", 3000).Err())
	}
	return g.servers, g
}

// impatient makes a client notice soon that a server hangs.
func impatient(o *redis.Options) {
	o.Protocol, o.MaxRetries, o.DialerRetries = 2, -1, 1
	o.DialTimeout, o.ReadTimeout = 500*time.Millisecond, 500*time.Millisecond
}

func (g *sentinels) startupAddrs() (addrs []string) {
	for _, w := range g.watchers {
		addrs = append(addrs, w.Addr())
	}
	return addrs
}

// A Guard asks once a second. go-redis leaves a sentinel that hangs after two more, and what
// a loaded machine adds.
func (g *sentinels) notice() time.Duration { return 4 * time.Second }

// look does without a watcher that hangs: clients do, too.
func (g *sentinels) look() view {
	names, calm := g.names()
	v := view{healthy: calm, full: len(names) == len(g.watchers)}
	if len(names) <= len(g.watchers)/2 || len(slices.Compact(slices.Sorted(slices.Values(names)))) > 1 {
		return view{}
	}
	primary := slices.IndexFunc(g.servers, func(s *redistest.Server) bool { return s.Addr() == names[0] })
	v.assignment, v.primaries = names[0], []int{primary}
	var roles sync.WaitGroup
	are := make([]string, len(g.servers))
	for i, c := range g.admins {
		roles.Go(func() { are[i] = roleOf(c) })
	}
	roles.Wait()
	for i, role := range are {
		want := "slave of " + names[0] + ": connected"
		if i == primary {
			want = "master"
		}
		if role != want {
			v.healthy = false
			// The promoted server may not be known yet.
			if role != "" && are[primary] == "master" && !strings.HasPrefix(role, "slave of "+names[0]) {
				v.stray = append(v.stray, i)
			}
		}
	}
	return v
}

// names is the primary in the view of the Sentinels that answer. calm says that none of
// them thinks ill of it.
func (g *sentinels) names() (names []string, calm bool) {
	calm = true
	for _, c := range g.asked {
		fields, err := c.Do(context.Background(), "sentinel", "master", redistest.MasterName).StringSlice()
		if err != nil {
			continue
		}
		known := make(map[string]string)
		for i := 0; i+1 < len(fields); i += 2 {
			known[fields[i]] = fields[i+1]
		}
		// During a failover, clients learn of the promoted one before it counts.
		addr, err := c.Do(context.Background(), "sentinel", "get-master-addr-by-name", redistest.MasterName).StringSlice()
		if err != nil || len(addr) != 2 {
			continue
		}
		names = append(names, net.JoinHostPort(addr[0], addr[1]))
		calm = calm && known["flags"] == "master"
	}
	return names, calm
}

// roleOf is what a server says that it is, or nothing.
func roleOf(c *redis.Client) string {
	role, err := c.Do(context.Background(), "role").Slice()
	if err != nil || len(role) < 3 {
		return ""
	}
	if role[0] == "slave" && len(role) > 3 {
		return fmt.Sprintf("slave of %v:%v: %v", role[1], role[2], role[3])
	}
	return fmt.Sprint(role[0])
}

func (g *sentinels) replace(_ int) (planned bool, err error) {
	return false, g.asked[0].Do(context.Background(), "sentinel", "failover", redistest.MasterName).Err()
}

func (g *sentinels) repair(server int, v view) {
	host, port, _ := net.SplitHostPort(v.assignment)
	_ = g.admins[server].ReplicaOf(context.Background(), host, port).Err() // the next look shows
}

// isGone returns whether an error means that the server does not run.
func isGone(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
