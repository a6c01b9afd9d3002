package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	guardgocron "github.com/redlatch/redlatch/middleware/gocron"
)

// isWorker says whether this process was started to run jobs.
func isWorker() bool { return os.Getenv(envPlan) != "" }

// work is one process: it runs jobs and stands for election until its parent ends it.
func work() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, orphaned := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends when the parent has closed it, or has ended
		orphaned()
	}()
	var p plan
	err := json.Unmarshal([]byte(os.Getenv(envPlan)), &p)
	if err == nil {
		err = (&worker{plan: p}).run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "periodic:", err)
		return 1
	}
	return 0
}

type worker struct {
	plan
	mu sync.Mutex // protects stdout
}

func (w *worker) run(ctx context.Context) error {
	opt, err := redis.ParseURL(w.Redis)
	if err != nil {
		return errors.New("REDIS_URL is not one") // the text of err may hold a password
	}
	rdb := redis.NewClient(opt)
	defer rdb.Close()
	g, err := guard.New(rdb, guard.Prefix("example:periodic:"+w.Run), guard.TTL(w.TTL))
	if err != nil {
		return err
	}
	defer g.Close()
	scheduler, err := w.scheduler(g)
	if err != nil {
		return err
	}
	scheduler.Start()
	err = g.Lead(ctx, guard.Key("leader"), w.lead, guard.Name("leader"))
	if errors.Is(err, context.Canceled) {
		err = nil // its parent ended it
	}
	return errors.Join(err, scheduler.Shutdown())
}

// scheduler has one job. All processes have the same, and one of them runs each tick.
func (w *worker) scheduler(g *guard.Guard) (gocron.Scheduler, error) {
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(
		guardgocron.Locker(g, guard.MinHold(w.MinHold))))
	if err != nil {
		return nil, err
	}
	next := w.first()
	for next.Before(time.Now().Add(w.Tick / 10)) { // it took a while to start
		next = next.Add(w.Tick)
	}
	_, err = s.NewJob(gocron.DurationJob(w.Tick), gocron.NewTask(w.job), gocron.WithName("report"),
		gocron.WithStartAt(gocron.WithStartDateTime(next)))
	return s, err
}

// job does some work, and says for which tick.
func (w *worker) job() {
	since := time.Since(w.first())
	tick := int((since + w.Tick/20) / w.Tick) // two clocks of one machine may differ a little
	w.say(event{What: jobBegan, Tick: tick, Late: since - time.Duration(tick)*w.Tick})
	time.Sleep(w.ShortJob + rand.N(w.LongJob-w.ShortJob+1)) //nolint:gosec // no secret
	w.say(event{What: jobEnded, Tick: tick})
}

// lead is one term. It returns when the term has ended.
func (w *worker) lead(ctx context.Context) error {
	fence, _ := guard.Fence(ctx)
	w.say(event{What: termBegan, Fence: fence})
	<-ctx.Done()
	w.say(event{What: termEnded, Fence: fence})
	return nil
}

func (w *worker) say(e event) {
	e.At, e.Process = time.Now(), w.Process
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(e)
}
