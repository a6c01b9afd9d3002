package chaos_test

import (
	"context"
	"strconv"
)

// stopServer suspends a server. Its clients' connections stay open.
func (s *storm) stopServer() *harm {
	i, target, ok := s.server()
	if !ok {
		return nil
	}
	s.pause(i)
	return &harm{target: target, heal: func() {
		s.resume(i)
		s.convalesce(i)
	}}
}

func (s *storm) pause(i int) {
	s.tb.Helper()
	if err := s.net.servers[i].Pause(); err != nil {
		s.tb.Fatal(err)
	}
}

func (s *storm) resume(i int) {
	s.tb.Helper()
	if err := s.net.servers[i].Resume(); err != nil {
		s.tb.Fatal(err)
	}
}

// sleepServer has a command take long.
func (s *storm) sleepServer() *harm {
	i, target, ok := s.server()
	if !ok {
		return nil
	}
	seconds := strconv.FormatFloat(upTo(s.rng, longestTTL).Seconds(), 'f', 3, 64)
	asleep := make(chan struct{})
	go func() {
		defer close(asleep)
		// It is an answer that matters to nobody.
		_ = s.net.admins[i].Do(context.Background(), "debug", "sleep", seconds).Err()
	}()
	return &harm{target: target, heal: func() { s.convalesce(i) }, over: asleep}
}

// killServer ends a server that comes back with its data.
func (s *storm) killServer() *harm {
	i, target, ok := s.server()
	if !ok {
		return nil
	}
	s.net.servers[i].Kill()
	return &harm{target: target, heal: func() {
		s.net.servers[i].Restart(s.tb)
		s.convalesce(i)
	}}
}

// emptyServer ends a server that comes back without its data.
func (s *storm) emptyServer() *harm {
	i, target, ok := s.server()
	if !ok {
		return nil
	}
	from, primary := stamp(), s.net.isPrimary(i)
	s.net.servers[i].Kill()
	return &harm{target: target, heal: func() {
		if err := s.net.forget(i); err != nil {
			s.tb.Fatal(err)
		}
		s.net.servers[i].Restart(s.tb)
		if primary {
			s.losses = append(s.losses, loss{span: span{from, stamp()}})
		}
		s.convalesce(i)
	}}
}

func (s *storm) wipeServer() *harm {
	i, target, ok := s.server()
	if !ok || !s.net.isPrimary(i) {
		return nil
	}
	from := stamp()
	s.do(i, "flushall")
	s.losses = append(s.losses, loss{span: span{from, stamp()}})
	s.convalesce(i)
	return &harm{target: target}
}

// fillServer leaves a server no memory to write with.
func (s *storm) fillServer() *harm {
	i, target, ok := s.server()
	if !ok {
		return nil
	}
	s.do(i, "config", "set", "maxmemory", "1")
	return &harm{target: target, heal: func() {
		s.do(i, "config", "set", "maxmemory", "0")
		s.convalesce(i)
	}}
}
