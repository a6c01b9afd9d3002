package chaos_test

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/internal/redistest"
)

// faults are what befalls workers, their links and any server.
var faults = []fault{
	{"worker stopped", 10, (*storm).stopWorker},
	{"worker killed", 2, (*storm).killWorker},
	{"worker retired", 1, (*storm).retireWorker},
	{"connections cut", 5, (*storm).cutOnce},
	{"link down", 5, (*storm).cutLink},
	{"link silent", 5, (*storm).freezeLink},
	{"link slow", 5, (*storm).slowLink},
	{"link half-open", 3, (*storm).halfOpen},
	{"reply lost", 10, (*storm).swallowReply},
	{"request held", 10, (*storm).holdRequest},
	{"server stopped", 4, (*storm).stopServer},
	{"server busy", 2, (*storm).sleepServer},
	{"server killed", 2, (*storm).killServer},
	{"server full", 2, (*storm).fillServer},
	{"scripts flushed", 4, instantly("script", "flush")},
	{"clients killed", 2, instantly("client", "kill", "type", "normal")},
	{"subscribers killed", 4, instantly("client", "kill", "type", "pubsub")},
	{"data wiped", 1, (*storm).wipeServer},
	{"server restarted empty", 1, (*storm).emptyServer},
}

// stopWorker suspends a process, as a pause of its machine would.
func (s *storm) stopWorker() *harm {
	i, target, ok := s.worker()
	if !ok {
		return nil
	}
	return &harm{target: target, heal: s.crew.stop(s.crew.members[i])}
}

func (s *storm) killWorker() *harm {
	i, target, ok := s.worker()
	if !ok {
		return nil
	}
	s.crew.kill(i)
	return &harm{target: target, heal: func() { s.crew.hire(i) }}
}

// retireWorker has a process close its Guard under load and end.
func (s *storm) retireWorker() *harm {
	i, target, ok := s.worker()
	if !ok {
		return nil
	}
	p := s.crew.members[i]
	p.tell(command{Do: retire})
	return &harm{target: target, heal: func() { s.crew.await(i); s.crew.hire(i) }, over: p.gone}
}

// cutOnce breaks all connections that there are.
func (s *storm) cutOnce() *harm {
	return s.onLink(func(p *redistest.Proxy) (heal func()) { p.Cut(); p.Heal(); return nil })
}

func (s *storm) cutLink() *harm {
	return s.onLink(func(p *redistest.Proxy) (heal func()) { p.Cut(); return p.Heal })
}

func (s *storm) freezeLink() *harm {
	return s.onLink(func(p *redistest.Proxy) (heal func()) { p.Freeze(); return p.Thaw })
}

// halfOpen has the connections that there are carry nothing more, for good.
func (s *storm) halfOpen() *harm {
	return s.onLink(func(p *redistest.Proxy) (heal func()) { p.HalfOpen(); return nil })
}

// swallowReply loses the reply of a script that is executed.
func (s *storm) swallowReply() *harm {
	return s.onLink(func(p *redistest.Proxy) (heal func()) {
		p.SwallowReply(redistest.Command("evalsha"), 1+s.rng.IntN(20))
		return nil
	})
}

// holdRequest lets a script arrive late, long after its caller has given up.
func (s *storm) holdRequest() *harm {
	return s.onLink(func(p *redistest.Proxy) (heal func()) {
		_, release := p.HoldRequest(redistest.Command("evalsha"))
		return release
	})
}

// slowLink lets what is sent arrive late, but in bursts.
func (s *storm) slowLink() *harm {
	return s.onLink(func(p *redistest.Proxy) (heal func()) {
		stop, stopped := make(chan struct{}), make(chan struct{})
		delay := upTo(s.rng, 50*time.Millisecond)
		go func() {
			defer close(stopped)
			for !isClosed(stop) {
				p.Freeze()
				rest(delay, stop)
				p.Thaw()
				rest(time.Millisecond, stop)
			}
		}()
		return func() { close(stop); <-stopped }
	})
}

// onLink does harm to a worker's proxies: by strike, which returns nil if it is over at
// once.
func (s *storm) onLink(strike func(p *redistest.Proxy) (heal func())) *harm {
	proxies, worker, target, ok := s.link()
	if !ok {
		return nil
	}
	var heals []func()
	for _, i := range proxies {
		if h := strike(s.net.links[worker][i]); h != nil {
			heals = append(heals, h)
		}
	}
	if len(heals) == 0 {
		return &harm{target: target}
	}
	return &harm{target: target, heal: func() {
		for _, h := range heals {
			h()
		}
	}}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// instantly makes a fault of a command to a server.
func instantly(args ...any) func(s *storm) *harm {
	return func(s *storm) *harm { return s.onServer(func(i int) func() { s.do(i, args...); return nil }) }
}

// do sends a command to a server that is well.
func (s *storm) do(i int, args ...any) {
	s.tb.Helper()
	if err := s.net.admins[i].Do(context.Background(), args...).Err(); err != nil {
		s.tb.Fatalf("%v: %v", args, err)
	}
}
