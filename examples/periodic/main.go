// Command periodic runs a job once per tick on one of three processes, and has one of them lead.
// It kills the leader with SIGKILL halfway. Then it says which process ran each tick, which
// ticks nobody ran, and which process led when:
//
//	go run ./examples/periodic
//	go run ./examples/periodic -without-minhold   # a plain lock: ticks run twice
//	REDIS_URL=redis://… go run ./examples/periodic
//
// It exits with 1 if a tick ran twice, if two runs overlapped, or if two processes led at once.
// Without REDIS_URL it uses a Redis of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/redlatch/redlatch/guard/embedded"
)

const processes = 3

func main() {
	if isWorker() {
		os.Exit(work())
	}
	p := plan{
		Tick: time.Second, Apart: 150 * time.Millisecond, MinHold: 650 * time.Millisecond,
		ShortJob: time.Millisecond, LongJob: 600 * time.Millisecond, TTL: 2 * time.Second,
	}
	ticks := flag.Int("ticks", 16, "how many ticks to run for")
	flag.DurationVar(&p.Apart, "apart", p.Apart, "how far the clock of each process is behind the one before it")
	bare := flag.Bool("without-minhold", false, "give the lock back when the job is done")
	flag.Parse()
	if *bare {
		p.MinHold = 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Getenv("REDIS_URL"), p, *ticks)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "periodic:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, redisURL string, p plan, ticks int) error {
	if redisURL == "" {
		server, err := embedded.Start()
		if err != nil {
			return err
		}
		defer server.Close()
		redisURL = "redis://" + server.Addr()
	}
	p.Redis = redisURL
	_, err := show(ctx, p, ticks, true, os.Stdout)
	return err
}

var errWrong = errors.New("something ran twice, or at once")

// show has all processes run for some ticks, and says what became of it. kill is for the
// process that leads halfway.
func show(ctx context.Context, p plan, ticks int, kill bool, out io.Writer) (report, error) {
	p.begin()
	log, err := watch(ctx, p, ticks, kill)
	if err != nil {
		return report{}, err
	}
	r := judge(p, ticks, log)
	if _, err := fmt.Fprint(out, r); err != nil {
		return r, err
	}
	if r.wrong() {
		return r, errWrong
	}
	return r, nil
}

// watch starts the processes and gives all that happened until they have ended.
func watch(ctx context.Context, p plan, ticks int, kill bool) (log []event, err error) {
	c, err := p.start(ctx, processes)
	if err != nil {
		return nil, err
	}
	var halfway <-chan time.Time
	if kill {
		underJob := p.Begin.Add(time.Duration(ticks/2)*p.Tick + p.Tick/20)
		halfway = time.After(time.Until(underJob))
	}
	end := time.After(time.Until(p.Begin.Add(time.Duration(ticks)*p.Tick - p.Tick/20)))
	for {
		select {
		case e, more := <-c.events:
			if !more {
				return log, errors.Join(ctx.Err(), c.err)
			}
			log = append(log, e)
		case <-halfway:
			leader := leader(log)
			if leader == nobody { // it comes in a moment
				halfway = time.After(p.Tick / 10)
				continue
			}
			log = append(log, c.kill(leader))
		case <-end:
			c.stop(leader(log))
		}
	}
}
