package chaos_test

import (
	"context"
	"strconv"
)

// onServer does harm to a server: by strike, which returns nil if it is over at once, or if nothing is to be healed.
func (s *storm) onServer(strike func(i int) (heal func())) *harm {
	i, target, ok := s.server()
	if !ok {
		return nil
	}
	h := &harm{target: target}
	if heal := strike(i); heal != nil {
		h.heal = func() { heal(); s.convalesce(i) }
	}
	return h
}

func (s *storm) must(err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatal(err)
	}
}

func (s *storm) lost(from int64) {
	s.losses = append(s.losses, loss{span: span{from, stamp()}})
}

// stopServer suspends a server. Its clients' connections stay open.
func (s *storm) stopServer() *harm {
	return s.onServer(func(i int) func() { s.pause(i); return func() { s.resume(i) } })
}

func (s *storm) pause(i int)  { s.must(s.net.servers[i].Pause()) }
func (s *storm) resume(i int) { s.must(s.net.servers[i].Resume()) }

// sleepServer has a command take long.
func (s *storm) sleepServer() *harm {
	seconds, asleep := strconv.FormatFloat(upTo(s.rng, longestTTL).Seconds(), 'f', 3, 64), make(chan struct{})
	h := s.onServer(func(i int) func() {
		go func() {
			defer close(asleep)
			_ = s.net.admins[i].Do(context.Background(), "debug", "sleep", seconds).Err() // an answer that matters to nobody
		}()
		return func() {}
	})
	if h != nil {
		h.over = asleep
	}
	return h
}

// killServer ends a server that comes back with its data.
func (s *storm) killServer() *harm {
	return s.onServer(func(i int) func() {
		s.net.servers[i].Kill()
		return func() { s.net.servers[i].Restart(s.tb) }
	})
}

// emptyServer ends a server that comes back without its data.
func (s *storm) emptyServer() *harm {
	return s.onServer(func(i int) func() {
		from, primary := stamp(), s.net.isPrimary(i)
		s.net.servers[i].Kill()
		return func() {
			s.must(s.net.forget(i))
			s.net.servers[i].Restart(s.tb)
			if primary {
				s.lost(from)
			}
		}
	})
}

func (s *storm) wipeServer() *harm {
	i, target, ok := s.primary()
	if !ok {
		return nil
	}
	from := stamp()
	s.do(i, "flushall")
	s.lost(from)
	s.convalesce(i)
	return &harm{target: target}
}

// fillServer leaves a server no memory to write with.
func (s *storm) fillServer() *harm {
	return s.onServer(func(i int) func() {
		s.do(i, "config", "set", "maxmemory", "1")
		return func() { s.do(i, "config", "set", "maxmemory", "0") }
	})
}
