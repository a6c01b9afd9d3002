package chaos_test

import "slices"

// What befalls servers that follow each other, besides what befalls any.
var (
	sentinelFaults = slices.Concat(replacements, []fault{{"sentinel stopped", 4, (*storm).stopSentinel}})
	clusterFaults  = slices.Concat(replacements, []fault{{"slot moved", 8, (*storm).moveSlot}})
)

// A primary is replaced.
var replacements = []fault{
	{"failover ordered", 8, (*storm).orderFailover},
	{"primary killed until replaced", 6, (*storm).killPrimary},
	{"primary stopped until replaced", 6, (*storm).stopPrimary},
	{"primary cut off and killed", 6, (*storm).isolatePrimary},
}

// primary draws a server that takes writes and may be harmed.
func (s *storm) primary() (i int, target string, ok bool) {
	i, target, ok = s.server()
	return i, target, ok && s.net.isPrimary(i)
}

// orderFailover has a replica take over from a primary that works.
func (s *storm) orderFailover() *harm {
	i, target, ok := s.server()
	if !ok || s.net.isPrimary(i) {
		return nil
	}
	k := s.net.keeper
	over := k.replacement()
	planned, err := s.net.group.replace(i)
	if err != nil {
		return nil // it knows a reason
	}
	k.expect(planned)
	return &harm{target: target, heal: func() { k.expect(false) }, over: over}
}

// onPrimary does harm to a primary, until it is none any more.
func (s *storm) onPrimary(strike func(i int) (heal func())) *harm {
	i, target, ok := s.primary()
	if !ok {
		return nil
	}
	over := s.net.keeper.replacement()
	return &harm{target: target, heal: strike(i), over: over}
}

// killPrimary ends a primary, which comes back with its data.
func (s *storm) killPrimary() *harm {
	return s.onPrimary(func(i int) func() { s.net.servers[i].Kill(); return func() { s.net.servers[i].Restart(s.tb) } })
}

// stopPrimary suspends a primary, which wakes and does not know.
func (s *storm) stopPrimary() *harm {
	return s.onPrimary(func(i int) func() { s.pause(i); return func() { s.resume(i) } })
}

// isolatePrimary ends a primary with what no replica knows of.
func (s *storm) isolatePrimary() *harm {
	return s.onPrimary(func(i int) func() {
		var replicas []int
		for j := range s.net.servers {
			if !s.net.isPrimary(j) {
				replicas = append(replicas, j)
				s.pause(j)
			}
		}
		s.do(i, "client", "kill", "type", "replica")
		rest(upTo(s.rng, lull), nil)
		s.net.servers[i].Kill()
		for _, j := range replicas {
			s.resume(j)
		}
		return func() { s.net.servers[i].Restart(s.tb) }
	})
}

// stopSentinel suspends one of those who watch, or tell clients where to go.
func (s *storm) stopSentinel() *harm {
	g := s.net.group.(*sentinels)
	const target = "sentinel"
	if s.harmed[target] {
		return nil
	}
	w := g.watchers[s.rng.IntN(len(g.watchers))]
	s.must(w.Pause())
	return &harm{target: target, heal: func() { s.must(w.Resume()) }}
}

// moveSlot moves the slot of a lock to another primary: now its first keys, or none,
// and later the others.
func (s *storm) moveSlot() *harm {
	key := "guard:{" + pick(s.rng, lockKeys[:plainKeys]...) + "}"
	_, target, ok := s.server() // any: the others stay well, too
	if !ok {
		return nil
	}
	m := s.net.group.(*cluster).Migrate(s.tb, key)
	if chance(s.rng, 50) {
		m.Move(s.tb, key)
	}
	if chance(s.rng, 50) {
		m.Move(s.tb, key+":queue", key+":last")
	}
	return &harm{target: target, heal: func() { m.Finish(s.tb) }}
}
