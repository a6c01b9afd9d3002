package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/bench/internal/stage"
	"github.com/redlatch/redlatch/internal/redistest"
)

const (
	wanters    = 4                     // callers of each library
	wanterRest = 20 * time.Millisecond // between their locks, so that the machine is mostly idle
	loneRest   = time.Millisecond
	quorumSize = 5
)

// recoveries are the measures of the scenario.
type recoveries struct {
	hung, restarted, allHung, allRestarted, promoted recovery
	killed, stopped                                  passage
}

func runRecovery(ctx context.Context, b *bench, s *scenario) (result, error) {
	hung := fmt.Sprintf("hung for %v", b.long(hangs))
	r := recoveries{
		hung: newRecovery(s, hung), restarted: newRecovery(s, "restarted empty"), promoted: newRecovery(s, "replica promoted by Sentinel"),
		allHung: newRecovery(s, "quorum, all "+hung), allRestarted: newRecovery(s, "quorum, all restarted empty"),
		killed: newPassage(s, "quorum, 1 of 5 killed"), stopped: newPassage(s, "quorum, 1 of 5 stopped"),
	}
	for round := range b.rounds {
		err := stage.Run(func(on *stage.Stage) error { return r.onServers(ctx, b, round, on) })
		if err == nil {
			err = stage.Run(func(on *stage.Stage) error { return r.behindSentinel(ctx, b, round, on) })
		}
		if err != nil {
			return result{}, err
		}
	}
	var all []*measure
	for _, m := range []recovery{r.hung, r.restarted, r.promoted, r.allHung, r.allRestarted} {
		all = append(all, m.first, m.last)
	}
	for _, m := range []passage{r.killed, r.stopped} {
		all = append(all, m.gap, m.typical)
	}
	return result{measures: all}, nil
}

// onServers has independent servers fail: all of them, which all libraries go through at
// the same time, on one of the servers and on their quorum; then one of them, which one
// library goes through after another.
func (r recoveries) onServers(ctx context.Context, b *bench, round int, on *stage.Stage) error {
	servers := redistest.StartN(on, quorumSize)
	for _, fault := range []struct {
		happens  func(context.Context, *bench, *stage.Stage, []*redistest.Server) ([]outage, error)
		one, all recovery
	}{{hang, r.hung, r.allHung}, {restart, r.restarted, r.allRestarted}} {
		if err := flush(ctx, servers); err != nil {
			return err
		}
		singles := jobsOf(turn(libraries, round), wanters, wanterRest, servers[0])
		quorums := jobsOf(turn(quorate, round), wanters, wanterRest, servers...)
		var outages []outage // of as many servers
		reports, err := b.during(ctx, append(singles, quorums...), func() (err error) {
			outages, err = fault.happens(ctx, b, on, servers)
			return err
		})
		if err == nil {
			err = fault.one.add(singles, reports, outages[0])
		}
		if err == nil {
			err = fault.all.add(quorums, reports[len(singles):], outages[quorumSize/2])
		}
		if err != nil {
			return err
		}
	}
	for _, loss := range []struct {
		begin, end func(*redistest.Server) error
		passage
	}{
		{func(s *redistest.Server) error { s.Kill(); return nil }, func(s *redistest.Server) error { s.Restart(on); return nil }, r.killed},
		{(*redistest.Server).Pause, (*redistest.Server).Resume, r.stopped},
	} {
		for _, j := range jobsOf(turn(quorate, round), 1, loneRest, servers...) {
			if err := flush(ctx, servers); err != nil {
				return err
			}
			var from, to time.Time
			reports, err := b.during(ctx, []job{j}, func() (err error) {
				lost := servers[round%quorumSize]
				from, to, err = without(ctx, b, func() error { return loss.begin(lost) })
				return errors.Join(err, loss.end(lost))
			})
			if err == nil {
				err = loss.add(j.Library, reports[0].Grants[0], from, to)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// behindSentinel has a primary die, which all libraries go through at the same time.
func (r recoveries) behindSentinel(ctx context.Context, b *bench, round int, on *stage.Stage) error {
	s := redistest.StartSentinel(on)
	jobs := jobsOf(turn(libraries, round), wanters, wanterRest, s.Primary())
	for i := range jobs {
		jobs[i].Watched = s.Addrs()
	}
	var o outage
	reports, err := b.during(ctx, jobs, func() (err error) {
		o, err = failOver(ctx, b, on, s)
		return err
	})
	if err != nil {
		return err
	}
	return r.promoted.add(jobs, reports, o)
}

// turn begins with another library in each round.
func turn(names []string, round int) []string {
	n := round % len(names)
	return append(slices.Clone(names[n:]), names[:n]...)
}

// jobsOf are the jobs of callers that want locks from one server, or from a quorum.
func jobsOf(names []string, callers int, rest time.Duration, servers ...*redistest.Server) []job {
	jobs := make([]job, len(names))
	for i, name := range names {
		jobs[i] = job{Kind: "wanting", Library: name, Callers: callers, Rest: rest, Addr: servers[0].Addr()}
		for _, s := range servers[1:] {
			jobs[i].Others = append(jobs[i].Others, s.Addr())
		}
	}
	return jobs
}

// flush empties the servers, so that one measurement does not affect the next.
func flush(ctx context.Context, servers []*redistest.Server) error {
	for _, s := range servers {
		client := redis.NewClient(&redis.Options{Addr: s.Addr()})
		err := client.FlushAll(ctx).Err()
		if err = errors.Join(err, client.Close()); err != nil {
			return err
		}
	}
	fmt.Fprint(os.Stderr, ".")
	return nil
}
