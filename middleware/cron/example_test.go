package guardcron_test

import (
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardcron "github.com/redlatch/redlatch/middleware/cron"
)

// exampleGuard stands for guard.New(rdb).
func exampleGuard() *guard.Guard {
	g, err := guard.NewWithStore(guardtest.NewStore())
	if err != nil {
		panic(err)
	}
	return g
}

// Each replica runs this. With MinHold, each tick runs at most once.
func ExampleJob() {
	g := exampleGuard()
	defer g.Close()

	locked := guardcron.Job(g, guard.Key("report"), guard.Name("report"), guard.MinHold(50*time.Second))
	report := cron.NewChain(locked).Then(cron.FuncJob(func() { fmt.Println("report") }))

	c := cron.New()
	if _, err := c.AddJob("* * * * *", report); err != nil {
		fmt.Println(err)
	}
	report.Run() // as cron does
	report.Run() // the same tick, on another replica: skipped
	// Output: report
}

// The context of a Job ends when its lock gets lost.
func ExampleJobFunc() {
	g := exampleGuard()
	defer g.Close()

	locked := guardcron.Job(g, guard.Key("clean-up"), guard.Name("clean-up"))
	job := cron.NewChain(locked).Then(guardcron.JobFunc(func(ctx context.Context) {
		fence, _ := guard.Fence(ctx)
		fmt.Println("fenced:", fence > 0)
	}))
	job.Run() // as cron does
	// Output: fenced: true
}
