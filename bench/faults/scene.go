package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/bench/internal/stage"
	"github.com/redlatch/redlatch/internal/redistest"
)

const (
	before   = ttl / 20 // from the grant to the fault: sooner than any renewal
	holds    = 7 * ttl  // the work of the holder, unless it notices a loss
	follows  = 3 * ttl  // the work of the next caller
	observed = 4 * ttl  // for how long the end of it all is awaited
	calling  = time.Minute
)

// The calls of most scenarios, which are by the two workers of each library.
const (
	holder = 1
	next   = 2
	third  = 3
)

// scene is one round of a scenario: a Redis, and two workers of each library on it.
type scene struct {
	on      *stage.Stage
	server  *redistest.Server
	admin   *redis.Client
	pairs   []*pair
	witness *witness

	harmed time.Time // when the fault came, or what of it a caller can notice
	freed  time.Time // since when no living caller needs the lock
}

// pair is two workers of a library, each with a proxy of its own to Redis.
type pair struct {
	library              string
	holder, next         *process
	holderLink, nextLink *redistest.Proxy
}

// key is what a library's callers lock.
func (p *pair) key() string { return "job-of-" + p.library }

// play plays a round of the scenario, for all libraries at the same time, and gives what
// came of it for each.
func (sc *scenario) play(o options) (map[string]verdict, error) {
	verdicts := make(map[string]verdict)
	err := stage.Run(func(on *stage.Stage) error {
		s := &scene{on: on, server: redistest.Start(on), witness: newWitness()}
		s.admin = s.server.Client(on)
		for _, l := range o.libraries {
			if err := s.enter(sc, l); err != nil {
				return err
			}
		}
		for _, l := range o.libraries {
			if err := s.witness.await(l, 0, patience, func(c call) bool { return c.ready == 2 }); err != nil {
				return err
			}
		}
		if err := sc.run(s); err != nil {
			return err
		}
		for _, p := range s.pairs {
			verdicts[p.library] = sc.judge(s, p)
		}
		if o.verbose {
			s.print(os.Stderr)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sc.name, err)
	}
	return verdicts, nil
}

// enter starts the workers of a library.
func (s *scene) enter(sc *scenario, library string) error {
	p := &pair{library: library, holderLink: redistest.NewProxy(s.on, s.server.Addr())}
	if sc.tls {
		p.nextLink, _ = redistest.NewTLSProxy(s.on, s.server.Addr())
	} else {
		p.nextLink = redistest.NewProxy(s.on, s.server.Addr())
	}
	hear := func(e event) { s.witness.hear(library, e) }
	var err error
	if p.holder, err = startProcess(task{library, p.holderLink.Addr(), false}, hear); err != nil {
		return err
	}
	s.on.Cleanup(p.holder.kill)
	if p.next, err = startProcess(task{library, p.nextLink.Addr(), sc.tls}, hear); err != nil {
		return err
	}
	s.on.Cleanup(p.next.kill)
	s.pairs = append(s.pairs, p)
	return nil
}

// each does something for each library.
func (s *scene) each(do func(*pair) error) error {
	var err error
	for _, p := range s.pairs {
		err = errors.Join(err, do(p))
	}
	return err
}

// rest lets time pass.
func (*scene) rest(d time.Duration) { time.Sleep(d) }

// hold has the first worker of each library take the lock and work under it.
func (s *scene) hold(work time.Duration) error {
	err := s.each(func(p *pair) error {
		return p.holder.tell(order{Do: take, Call: holder, Key: p.key(), Wait: calling, Work: work})
	})
	return errors.Join(err, s.await(holder, func(c call) bool { return !c.begun.IsZero() }))
}

// ask has the second worker of each library want the lock.
func (s *scene) ask(work time.Duration) error {
	return s.each(func(p *pair) error {
		return p.next.tell(order{Do: take, Call: next, Key: p.key(), Wait: calling, Work: work, Insist: true})
	})
}

// askOnce has it want the lock, and take an error for an answer.
func (s *scene) askOnce() error {
	return s.each(func(p *pair) error {
		return p.next.tell(order{Do: take, Call: next, Key: p.key(), Wait: calling, Work: step})
	})
}

// askThird has the first worker want the lock.
func (s *scene) askThird() error {
	return s.each(func(p *pair) error {
		return p.holder.tell(order{Do: take, Call: third, Key: p.key(), Wait: calling, Work: step, Insist: true})
	})
}

// await waits until something is true of a call of each library.
func (s *scene) await(number int, holds func(call) bool) error {
	return s.each(func(p *pair) error { return s.witness.await(p.library, number, patience, holds) })
}

// observe waits until calls have come to their end, or the limit is reached. A call that has
// not ended is part of the verdict.
func (s *scene) observe(limit time.Duration, numbers ...int) error {
	end := time.Now().Add(limit)
	for _, p := range s.pairs {
		for _, n := range numbers {
			done := func(c call) bool { return !c.unlocked.IsZero() }
			if err := s.witness.await(p.library, n, time.Until(end), done); err != nil && !errors.Is(err, errNever) {
				return err
			}
		}
	}
	return nil
}

// setClock sets the clock of Redis.
func (s *scene) setClock(ahead time.Duration) error {
	dir, err := s.admin.ConfigGet(context.Background(), "dir").Result()
	if err != nil {
		return err
	}
	return setClock(dir["dir"], ahead)
}
