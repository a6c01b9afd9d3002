package chaos

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

// faults are those of workers, their links and any server.
var faults = []fault{
	{"worker stopped", 10, onWorker(func(s *injector, i int) func() { return s.workers.stop(s.workers.processes[i]) })},
	{"worker killed", 2, onWorker(func(s *injector, i int) func() { s.workers.kill(i); return func() { s.workers.start(i) } })},
	{"connections cut", 5, onLink(func(_ *injector, p *redistest.Proxy) func() { p.Cut(); p.Heal(); return nil })},
	{"link down", 5, onLink(func(_ *injector, p *redistest.Proxy) func() { p.Cut(); return p.Heal })},
	{"link silent", 5, onLink(func(_ *injector, p *redistest.Proxy) func() { p.Freeze(); return p.Thaw })},
	{"link slow", 5, onLink(func(s *injector, p *redistest.Proxy) func() {
		p.Delay(upTo(s.rng, 50*time.Millisecond))
		return func() { p.Delay(0) }
	})},
	{"link half-open", 3, onLink(func(_ *injector, p *redistest.Proxy) func() { p.HalfOpen(); return nil })}, // carries nothing more, for good
	{"reply lost", 10, onLink(func(s *injector, p *redistest.Proxy) func() { // of a script that is executed
		p.SwallowReply(redistest.Command("evalsha"), 1+s.rng.IntN(20))
		return nil
	})},
	{"request held", 10, onLink(func(_ *injector, p *redistest.Proxy) func() { // arrives long after its caller has given up
		_, release := p.HoldRequest(redistest.Command("evalsha"))
		return release
	})},
	{"server stopped", 4, onServer(pauseServer)},
	{"server killed", 2, onServer(killServer)},
	{"server full", 2, onServer(fillServer)},
	{"scripts flushed", 4, instantly("script", "flush")},
	{"subscribers killed", 4, instantly("client", "kill", "type", "pubsub")},
	{"data wiped", 1, onServer(wipeServer)},
	{"server restarted empty", 1, onServer(emptyServer)},
}

// onWorker makes a fault of a live worker.
func onWorker(inject func(s *injector, i int) (heal func())) func(s *injector) *injection {
	return func(s *injector) *injection {
		i := s.rng.IntN(workerCount)
		target := "worker slot " + strconv.Itoa(i)
		if s.workers.processes[i] == nil || s.isFaulty(target) {
			return nil
		}
		return &injection{target: target, heal: inject(s, i)}
	}
}

// onLink makes a fault of some proxies of a worker, with a quorum of all or a minority. inject returns nil if the fault
// ends at once.
func onLink(inject func(s *injector, p *redistest.Proxy) (heal func())) func(s *injector) *injection {
	return func(s *injector) *injection {
		worker, proxies := s.rng.IntN(workerCount), s.rng.Perm(s.net.size)
		if chance(s.rng, 50) {
			proxies = proxies[:s.net.minority]
		}
		h := &injection{target: "link of slot " + strconv.Itoa(worker)}
		if s.isFaulty(h.target) {
			return nil
		}
		for _, i := range proxies {
			if heal := inject(s, s.net.links[worker][i]); heal != nil {
				others := h.heal
				h.heal = func() {
					if heal(); others != nil {
						others()
					}
				}
			}
		}
		return h
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// onServer makes a fault of a server. inject returns nil if the fault ends at once, or if nothing is to be healed.
func onServer(inject func(s *injector, i int) (heal func())) func(s *injector) *injection {
	return func(s *injector) *injection {
		i, target, ok := s.server()
		if !ok {
			return nil
		}
		h := &injection{target: target}
		if heal := inject(s, i); heal != nil {
			h.heal = func() { heal(); s.noteRecovery(i) }
		}
		return h
	}
}

func (s *injector) must(err error) {
	s.tb.Helper()
	require.NoError(s.tb, err)
}

// do sends a command to a server that is well.
func (s *injector) do(i int, args ...any) {
	s.tb.Helper()
	s.must(s.net.admins[i].Do(context.Background(), args...).Err())
}

// instantly makes a fault of a command to a server.
func instantly(args ...any) func(s *injector) *injection {
	return onServer(func(s *injector, i int) func() { s.do(i, args...); return nil })
}

// pauseServer suspends a server. Its clients' connections stay open.
func pauseServer(s *injector, i int) (heal func()) {
	s.must(s.net.servers[i].Pause())
	return func() { s.must(s.net.servers[i].Resume()) }
}

// killServer ends a server that comes back with its data.
func killServer(s *injector, i int) (heal func()) {
	s.net.servers[i].Kill()
	return func() { s.net.servers[i].Restart(s.tb) }
}

// wipeServer deletes all data.
func wipeServer(s *injector, i int) (heal func()) {
	if from := stamp(); s.net.isPrimary(i) {
		s.do(i, "flushall")
		s.losses = append(s.losses, loss{span: span{from, stamp()}})
		s.noteRecovery(i)
	}
	return nil
}

// emptyServer ends a server that comes back without its data.
func emptyServer(s *injector, i int) (heal func()) {
	wipeServer(s, i)
	return killServer(s, i)
}

// fillServer leaves a server no memory to write with.
func fillServer(s *injector, i int) (heal func()) {
	s.do(i, "config", "set", "maxmemory", "1")
	return func() { s.do(i, "config", "set", "maxmemory", "0") }
}

const (
	// mostSlew is chrony's, by default, and within what docs/explain/guarantees.md says is covered.
	mostSlew  = 0.083333
	slewPulse = 2 * time.Millisecond
	// A driver that was kept from running slews less, and never catches up in one step.
	slewGap = 10 * time.Millisecond

	farClock   = 2 * time.Second        // from where a clock is at home
	groupClock = 300 * time.Millisecond // servers that watch each other take more for a failure
)

// clockFaults are those of servers that have clocks of their own.
var clockFaults = []fault{
	{"clock stepped", 6, onServer(stepClock)},
	{"clock slewed", 6, onServer(slewClock)},
}

// stepClock sets the clock of a server. Now and then it is a server without a group that gets
// ahead by an hour, for good: set back by as much, a killed worker would hold its locks for
// an hour.
func stepClock(s *injector, i int) (heal func()) {
	far := farClock
	if s.net.group != nil {
		far = groupClock
	}
	step := upTo(s.rng, 2*far) - far
	if s.net.group == nil && chance(s.rng, 5) {
		s.clockBase[i] += time.Hour
		step = time.Hour
	} else if chance(s.rng, 50) {
		step = pick(s.rng, 50*time.Millisecond, -50*time.Millisecond)
	}
	c := s.net.clocks[i]
	was := c.ahead()
	now := min(max(was+step, s.clockBase[i]-far), s.clockBase[i]+far)
	from := stamp()
	s.must(c.set(now))
	c.settled()
	if now > was && s.net.isPrimary(i) {
		s.losses = append(s.losses, loss{span: span{from, stamp()}}) // keys may have expired early
	}
	s.noteRecovery(i)
	return nil
}

// slewClock has a clock go faster or slower than it should. No lock may be lost by that.
func slewClock(s *injector, i int) (heal func()) {
	rate := mostSlew * (2*s.rng.Float64() - 1)
	if chance(s.rng, 50) {
		rate = pick(s.rng, mostSlew, -mostSlew)
	}
	c, stop, failed := s.net.clocks[i], make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for at := time.Now(); !isClosed(stop); rest(slewPulse, stop) {
			now := time.Now()
			err = errors.Join(err, c.set(c.ahead()+time.Duration(rate*float64(min(now.Sub(at), slewGap)))))
			at = now
		}
		failed <- err
	}()
	return func() { close(stop); s.must(<-failed); c.settled() }
}

// The faults of servers that follow each other, besides those of any server.
var (
	sentinelFaults = slices.Concat(replacements, []fault{{"sentinel stopped", 4, (*injector).stopSentinel}})
	clusterFaults  = slices.Concat(replacements, []fault{{"slot moved", 8, (*injector).moveSlot}})
)

// A primary is replaced. A stopped primary wakes and does not know; a primary that is cut off knows more than any replica.
var replacements = []fault{
	{"failover ordered", 8, (*injector).orderFailover},
	{"primary killed until replaced", 6, onPrimary(killServer)},
	{"primary stopped until replaced", 6, onPrimary(pauseServer)},
	{"primary cut off and killed", 6, onPrimary(isolateServer)},
}

// orderFailover promotes a replica of a primary that works.
func (s *injector) orderFailover() *injection {
	i, target, ok := s.server()
	if !ok || s.net.isPrimary(i) {
		return nil
	}
	k := s.net.monitor
	ended := k.replacement()
	if k.replace(i) != nil {
		return nil // it knows a reason
	}
	k.expect(k.planned)
	return &injection{target: target, heal: func() { k.expect(false) }, ended: ended}
}

// onPrimary makes a fault of a primary. It lasts until the server is no primary any more.
func onPrimary(inject func(s *injector, i int) (heal func())) func(s *injector) *injection {
	return func(s *injector) *injection {
		i, target, ok := s.server()
		if !ok || !s.net.isPrimary(i) {
			return nil
		}
		ended := s.net.monitor.replacement()
		return &injection{target: target, heal: inject(s, i), ended: ended}
	}
}

func isolateServer(s *injector, i int) (heal func()) {
	var resume []func()
	for j := range s.net.servers {
		if !s.net.isPrimary(j) {
			resume = append(resume, pauseServer(s, j))
		}
	}
	s.do(i, "client", "kill", "type", "replica")
	rest(upTo(s.rng, longestPause), nil)
	heal = killServer(s, i)
	for _, r := range resume {
		r()
	}
	return heal
}

// stopSentinel suspends a sentinel.
func (s *injector) stopSentinel() *injection {
	const target = "sentinel"
	if s.isFaulty(target) {
		return nil
	}
	w := pick(s.rng, s.net.group.watchers...)
	s.must(w.Pause())
	return &injection{target: target, heal: func() { s.must(w.Resume()) }}
}

// moveSlot moves the slot of a lock to another primary: now its first keys, or none,
// and later the others.
func (s *injector) moveSlot() *injection {
	key := "redlatch:{" + pick(s.rng, allKeys[:plainKeys]...) + "}"
	_, target, ok := s.server() // any: the others stay well, too
	if !ok {
		return nil
	}
	m := s.net.group.migrate(s.tb, key)
	if chance(s.rng, 50) {
		m.Move(s.tb, key)
	}
	if chance(s.rng, 50) {
		m.Move(s.tb, key+":queue", key+":ended")
	}
	return &injection{target: target, heal: func() { m.Finish(s.tb) }}
}
