package main

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/internal/redistest"
)

// scenario is a fault.
type scenario struct {
	name  string
	fault string // as the table has it
	tls   bool   // the second worker of each library speaks TLS
	run   func(*scene) error
	judge func(*scene, *pair) verdict
}

const (
	hangs  = 10 * time.Second
	stepOf = time.Hour // of a clock
	lull   = ttl / 4   // until a caller has surely sent what it sends
)

var scenarios = []*scenario{
	{name: "stopped", fault: "holder stopped (SIGSTOP) for 2 ttl", run: stopped, judge: takeover},
	{name: "killed", fault: "holder killed", run: killed, judge: takeover},
	{name: "deleted", fault: "key deleted", run: deleted, judge: takeover},
	{name: "restarted", fault: "Redis restarted empty", run: restarted, judge: takeover},
	{name: "failover", fault: "failover to a replica that lacks the lock", run: failover, judge: takeover},
	{name: "hung", fault: "Redis hung for 10 s", run: hung, judge: takeover},
	{name: "cut", fault: "holder's connections cut for 3 ttl", run: cut, judge: takeover},
	{name: "silent", fault: "holder's packets dropped for 10 s", run: silent, judge: takeover},
	{name: "forward", fault: "Redis's clock 1 h forward", run: forward, judge: takeover},
	{name: "back", fault: "Redis's clock 1 h back, holder killed at once", run: back(0), judge: takeover},
	{name: "back-renewed", fault: "the same, holder killed after a renewal", run: back(ttl), judge: takeover},
	{name: "waiters", fault: "100 callers wait", run: waiters, judge: crowd},
	{name: "cancelled", fault: "ctx cancelled while waiting", run: cancelled, judge: leaves},
	{name: "cancelled-hung", fault: "ctx cancelled while Redis hangs", run: cancelledHung, judge: leaves},
	{name: "tls", fault: "ctx cancelled while a TLS handshake stalls", tls: true, run: cancelledTLS, judge: leaves},
	{name: "lost-grant", fault: "reply to the acquire lost", run: lostGrant, judge: single},
	{name: "lost-release", fault: "reply to the release lost", run: lostRelease, judge: single},
}

// taken has holders work until the moment of the fault.
func (s *scene) taken() error {
	err := s.hold(holds)
	s.rest(before)
	return err
}

func (s *scene) harm() { s.harmed, s.freed = time.Now(), time.Now() }

func stopped(s *scene) error {
	err := s.taken()
	s.freed = time.Now()
	err = errors.Join(err, s.each(func(p *pair) error { return p.holder.stop() }), s.ask(follows))
	s.rest(2 * ttl)
	s.harmed = time.Now()
	wake := s.each(func(p *pair) error { return p.holder.cmd.Process.Signal(syscall.SIGCONT) })
	return errors.Join(err, wake, s.observe(observed, holder, next))
}

func killed(s *scene) error {
	err := errors.Join(s.taken(), s.ask(follows))
	s.rest(lull)
	s.harm()
	s.killHolders()
	return errors.Join(err, s.observe(observed, next))
}

func (s *scene) killHolders() {
	for _, p := range s.pairs {
		p.holder.kill()
	}
}

func deleted(s *scene) error {
	err := s.taken()
	s.harm()
	err = errors.Join(err, s.each(func(p *pair) error {
		return s.admin.Del(context.Background(), keyOf(p.library, p.key())).Err()
	}), s.ask(follows))
	return errors.Join(err, s.observe(observed, holder, next))
}

func restarted(s *scene) error {
	err := s.taken()
	s.harm()
	s.server.Kill()
	s.server.Restart(s.on)
	return errors.Join(err, s.ask(follows), s.observe(observed, holder, next))
}

// failover moves all clients to a former replica that got nothing of what came last.
func failover(s *scene) error {
	replica := redistest.Start(s.on)
	err := s.taken()
	for _, p := range s.pairs {
		for _, link := range []*redistest.Proxy{p.holderLink, p.nextLink} {
			link.Redirect(replica.Addr())
		}
	}
	s.server.Kill()
	s.harm()
	return errors.Join(err, s.ask(follows), s.observe(observed, holder, next))
}

func hung(s *scene) error {
	err := errors.Join(s.taken(), s.server.Pause())
	s.harm()
	err = errors.Join(err, s.ask(follows))
	s.rest(hangs)
	s.freed = time.Now()
	return errors.Join(err, s.server.Resume(), s.observe(observed, holder, next))
}

func cut(s *scene) error {
	err := s.taken()
	s.harm()
	for _, p := range s.pairs {
		p.holderLink.Cut()
	}
	err = errors.Join(err, s.ask(follows))
	s.rest(3 * ttl)
	for _, p := range s.pairs {
		p.holderLink.Heal()
	}
	return errors.Join(err, s.observe(observed, holder, next))
}

func silent(s *scene) error {
	err := s.taken()
	s.harm()
	for _, p := range s.pairs {
		p.holderLink.Freeze()
	}
	err = errors.Join(err, s.ask(follows))
	s.rest(hangs)
	for _, p := range s.pairs {
		p.holderLink.Thaw()
	}
	return errors.Join(err, s.observe(observed, holder, next))
}

func forward(s *scene) error {
	err := errors.Join(s.taken(), s.setClock(stepOf))
	s.harm()
	return errors.Join(err, s.ask(follows), s.observe(observed, holder, next))
}

// back kills holders some time after the clock of Redis was set back.
func back(later time.Duration) func(*scene) error {
	return func(s *scene) error {
		err := errors.Join(s.taken(), s.setClock(-stepOf))
		s.rest(later)
		s.killHolders()
		s.harm()
		return errors.Join(err, s.ask(follows), s.observe(observed, next))
	}
}

const (
	crowded = 100 // calls, numbered from here
	callers = 100
	apart   = 10 * time.Millisecond
	served  = 20 * time.Second // ten times as long as all of their work takes
)

// waiters come one after the other while the lock is held, in two processes.
func waiters(s *scene) error {
	err := s.hold(callers * apart * 3 / 2)
	for i := range callers {
		err = errors.Join(err, s.each(func(p *pair) error {
			o := order{Do: take, Call: crowded + i, Key: p.key(), Wait: calling, Work: step, Insist: true}
			if i%2 == 0 {
				return p.holder.tell(o)
			}
			return p.next.tell(o)
		}))
		s.rest(apart)
	}
	all := make([]int, callers)
	for i := range all {
		all[i] = crowded + i
	}
	return errors.Join(err, s.observe(served, all...))
}

// leave cancels the second caller, which has asked.
func (s *scene) leave() error {
	s.rest(lull)
	s.harmed = time.Now()
	return s.each(func(p *pair) error { return p.next.tell(order{Do: cancel, Call: next}) })
}

func cancelled(s *scene) error {
	err := errors.Join(s.hold(2*lull+before), s.askOnce(), s.leave())
	err = errors.Join(err, s.await(holder, func(c call) bool { return !c.unlocked.IsZero() }))
	s.freed = time.Now()
	return errors.Join(err, s.askThird(), s.observe(observed, next, third))
}

func cancelledHung(s *scene) error {
	err := errors.Join(s.server.Pause(), s.askOnce(), s.leave())
	s.rest(2 * ttl)
	s.freed = time.Now()
	return errors.Join(err, s.server.Resume(), s.askThird(), s.observe(observed, next, third))
}

func cancelledTLS(s *scene) error {
	for _, p := range s.pairs {
		p.nextLink.Freeze()
		p.nextLink.Cut()
		p.nextLink.Heal()
	}
	err := errors.Join(s.askOnce(), s.leave())
	s.rest(2 * ttl)
	for _, p := range s.pairs {
		p.nextLink.Thaw()
	}
	s.freed = time.Now()
	return errors.Join(err, s.askThird(), s.observe(observed, next, third))
}

func lostGrant(s *scene) error {
	for _, p := range s.pairs {
		p.holderLink.SwallowReply(redistest.Contains(p.key()), 1)
	}
	s.harm()
	err := s.each(func(p *pair) error {
		return p.holder.tell(order{Do: take, Call: holder, Key: p.key(), Wait: calling, Work: before, Insist: true})
	})
	err = errors.Join(err, s.await(holder, func(c call) bool { return !c.begun.IsZero() }))
	return errors.Join(err, s.ask(step), s.observe(observed, holder, next))
}

func lostRelease(s *scene) error {
	err := s.hold(2 * before)
	for _, p := range s.pairs {
		p.holderLink.SwallowReply(redistest.Contains(p.key()), 1)
	}
	s.harm()
	err = errors.Join(err, s.await(holder, func(c call) bool { return !c.unlocked.IsZero() }))
	return errors.Join(err, s.ask(step), s.observe(observed, holder, next))
}
