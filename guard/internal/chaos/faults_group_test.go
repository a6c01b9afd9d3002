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

// killPrimary ends a primary, which comes back with its data when it is none any more.
func (s *storm) killPrimary() *harm {
	i, target, ok := s.primary()
	if !ok {
		return nil
	}
	over := s.net.keeper.replacement()
	s.net.servers[i].Kill()
	return &harm{target: target, heal: func() { s.net.servers[i].Restart(s.tb) }, over: over}
}

// stopPrimary suspends a primary, which wakes when it is none any more, and does not know.
func (s *storm) stopPrimary() *harm {
	i, target, ok := s.primary()
	if !ok {
		return nil
	}
	over := s.net.keeper.replacement()
	s.pause(i)
	return &harm{target: target, heal: func() { s.resume(i) }, over: over}
}

// isolatePrimary ends a primary with what no replica knows of.
func (s *storm) isolatePrimary() *harm {
	i, target, ok := s.primary()
	if !ok {
		return nil
	}
	over := s.net.keeper.replacement()
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
	return &harm{target: target, heal: func() { s.net.servers[i].Restart(s.tb) }, over: over}
}

// stopSentinel suspends one of those who watch, or tell clients where to go.
func (s *storm) stopSentinel() *harm {
	g := s.net.group.(*sentinels)
	const target = "sentinel"
	if s.harmed[target] {
		return nil
	}
	w := g.watchers[s.rng.IntN(len(g.watchers))]
	if err := w.Pause(); err != nil {
		s.tb.Fatal(err)
	}
	return &harm{target: target, heal: func() {
		if err := w.Resume(); err != nil {
			s.tb.Fatal(err)
		}
	}}
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
