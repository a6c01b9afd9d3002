package guardgocron_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardgocron "github.com/redlatch/redlatch/middleware/gocron"
)

// exampleGuard stands for guard.New(rdb).
func exampleGuard() *guard.Guard {
	g, err := guard.NewWithStore(guardtest.NewStore())
	if err != nil {
		panic(err)
	}
	return g
}

// run runs a scheduler until a job is done.
func run(s gocron.Scheduler, done <-chan struct{}) {
	s.Start()
	<-done
	if err := s.Shutdown(); err != nil {
		panic(err)
	}
}

// Every instance has this scheduler. MinHold keeps the key until the other instances have ticked,
// so each tick runs at most once.
func ExampleLocker() {
	g := exampleGuard()
	defer g.Close()
	done := make(chan struct{}, 100)
	report := func() { done <- struct{}{} }

	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(
		guardgocron.Locker(g, guard.MinHold(50*time.Second)))) // less than the shortest period
	if err != nil {
		panic(err)
	}
	_, err = s.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(report),
		gocron.WithName("report"), gocron.WithStartAt(gocron.WithStartImmediately()))
	if err != nil {
		panic(err)
	}
	run(s, done)
	fmt.Println("one instance reported")
	// Output: one instance reported
}

// A leader runs all jobs. When its process ends or dies, another process leads.
func ExampleElector() {
	g := exampleGuard()
	defer g.Close()
	ctx, cancel := context.WithCancel(context.Background()) // of the process
	done := make(chan struct{}, 100)
	cleanUp := func() { done <- struct{}{} }

	s, err := gocron.NewScheduler(gocron.WithDistributedElector(
		guardgocron.Elector(ctx, g, guard.Key("jobs"), guard.Name("jobs"))))
	if err != nil {
		panic(err)
	}
	_, err = s.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(cleanUp))
	if err != nil {
		panic(err)
	}
	run(s, done)
	cancel()
	fmt.Println("this instance led")
	// Output: this instance led
}

// The context of a task ends when its lock gets lost.
func ExampleTask() {
	g := exampleGuard()
	defer g.Close()
	s, err := gocron.NewScheduler()
	if err != nil {
		panic(err)
	}
	done := make(chan struct{}, 100)
	report := func(ctx context.Context) error {
		fence, _ := guard.Fence(ctx)
		fmt.Println("fenced:", fence > 0)
		done <- struct{}{}
		return ctx.Err()
	}

	_, err = s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
		gocron.NewTask(guardgocron.Task(g, guard.Key("report"), report)))
	if err != nil {
		panic(err)
	}
	run(s, done)
	// Output: fenced: true
}
