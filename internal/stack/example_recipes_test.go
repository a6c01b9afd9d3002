package stack_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v5"
	"github.com/robfig/cron/v3"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
	guardcron "github.com/redlatch/redlatch/middleware/cron"
	guardecho "github.com/redlatch/redlatch/middleware/echov5"
	guardgocron "github.com/redlatch/redlatch/middleware/gocron"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// newGuard stands for guard.New(rdb).
func newGuard() *guard.Guard {
	g, err := guard.NewWithStore(guardtest.NewStore())
	if err != nil {
		panic(err)
	}
	return g
}

// A cron job on several pods.
func Example_cronOnSeveralPods() {
	g := newGuard()
	defer g.Close()
	report := func() { fmt.Println("the night's report") }

	schedule := func() (gocron.Scheduler, error) {
		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(
			guardgocron.Locker(g, guard.MinHold(10*time.Minute)))) // longer than clocks of pods differ
		if err != nil {
			return nil, err
		}
		_, err = s.NewJob(gocron.CronJob("0 3 * * *", false), gocron.NewTask(report), gocron.WithName("report"))
		return s, err
	}
	s, err := schedule()
	fmt.Println(len(s.Jobs()), err, s.Shutdown())

	c := cron.New()
	locked := guardcron.Job(g, guard.Key("report"), guard.MinHold(10*time.Minute))
	_, err = c.AddJob("0 3 * * *", cron.NewChain(locked).Then(cron.FuncJob(report)))
	fmt.Println(len(c.Entries()), err)
	for range 2 { // two pods
		c.Entries()[0].WrappedJob.Run()
	}
	// Output:
	// 1 <nil> <nil>
	// 1 <nil>
	// the night's report
}

// An asynq scheduler on two servers.
func Example_schedulerOnTwoServers() {
	server, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	g, err := guard.New(server.Client())
	if err != nil {
		panic(err)
	}
	defer g.Close()
	rdb, opts := server.Client(), &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel}
	ctx, cancel := context.WithCancel(context.Background()) // of the process
	time.AfterFunc(10*time.Millisecond, cancel)

	err = guardasynq.Schedule(ctx, g, guard.Key("scheduler"), func() (*asynq.Scheduler, error) {
		s := asynq.NewSchedulerFromRedisClient(rdb, opts)
		_, err := s.Register("0 * * * *", asynq.NewTask("report:build", nil))
		return s, err
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output: true
}

func Example_echo() {
	g := newGuard()
	defer g.Close()
	show := func(c *echo.Context) error {
		lease, _ := guard.FromContext(c.Request().Context())
		return c.String(http.StatusOK, "under "+lease.Key())
	}
	e := echo.New()
	e.Use(guardecho.Annotate(g, guardecho.Routes{
		"POST /orders/:id/pay": guardecho.Lock("order:{id}"),
		"DELETE /orders/:id":   guardecho.Lock("order:{id}", guard.NoWait()),
	}))
	e.POST("/orders/:id/pay", show)
	e.DELETE("/orders/:id", show)

	answer := httptest.NewRecorder()
	e.ServeHTTP(answer, httptest.NewRequest(http.MethodDelete, "/orders/42", nil))
	fmt.Println(answer.Body)
	// Output: under order:42
}

// schema stands for a database with a table of its version.
type schema struct{ at int }

func (s *schema) version(context.Context) (int, error) { return s.at, nil }

func (s *schema) migrate(_ context.Context, to int) error {
	fmt.Println("migrated to", to)
	s.at = to
	return nil
}

func migrateOnce(ctx context.Context, g *guard.Guard, db *schema, want int) error {
	return g.WithLock(ctx, guard.Key("migrate"), func(ctx context.Context) error {
		at, err := db.version(ctx)
		if err != nil || at >= want {
			return err // another pod was first
		}
		return db.migrate(ctx, want)
	}, guard.Wait(5*time.Minute), guard.Name("migrate"))
}

// Migrations once at start.
func Example_migrationsOnceAtStart() {
	g := newGuard()
	defer g.Close()
	db := new(schema)
	for range 3 { // pods
		if err := migrateOnce(context.Background(), g, db, 7); err != nil {
			panic(err)
		}
	}
	// Output: migrated to 7
}

// outbox stands for a table of messages that one process sends.
type outbox struct {
	left int
	done func()
}

func (o *outbox) sendNext(_ context.Context, fence uint64) error {
	fmt.Println("sent one, fenced:", fence > 0)
	if o.left--; o.left == 0 {
		o.done()
	}
	return nil
}

func lead(ctx context.Context, g *guard.Guard, db *outbox) error {
	return g.Lead(ctx, guard.Key("outbox"), func(ctx context.Context) error {
		term, _ := guard.Fence(ctx)
		for ctx.Err() == nil { // ends when the lead is lost
			if err := db.sendNext(ctx, term); err != nil {
				return err
			}
		}
		return nil
	}, guard.Name("outbox"))
}

// A leader.
func Example_leader() {
	g := newGuard()
	defer g.Close()
	ctx, cancel := context.WithCancel(context.Background()) // of the process
	fmt.Println(errors.Is(lead(ctx, g, &outbox{2, cancel}), context.Canceled))
	// Output:
	// sent one, fenced: true
	// sent one, fenced: true
	// true
}

func runBatch(ctx context.Context, g *guard.Guard, batch func(context.Context) error) error {
	err := g.WithLock(ctx, guard.Key("batch"), batch, guard.NoWait(),
		guard.MinHold(10*time.Minute), guard.MaxHold(2*time.Hour), guard.Name("batch"))
	if errors.Is(err, guard.ErrBusy) {
		return nil // the last run is still running: wait for the next tick
	}
	return err
}

// A batch job that must not overlap itself.
func Example_batchMustNotOverlap() {
	g := newGuard()
	defer g.Close()
	again := func(context.Context) error {
		return runBatch(context.Background(), g, func(context.Context) error { panic("runs") })
	}
	fmt.Println(runBatch(context.Background(), g, again))
	// Output: <nil>
}

// At most three exports for a tenant.
func Example_atMostThree() {
	g := newGuard()
	defer g.Close()
	export := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "exported") })

	tenant := func(*http.Request) (string, error) { return "acme", nil } // of your authentication
	perTenant := guardhttp.Lock("export:{tenant}", guard.Limit(3), guard.NoWait()).Value("tenant", tenant)
	h := guardhttp.Middleware(g, perTenant)(export)
	tasks := guardasynq.Tasks{"export:run": guardasynq.Lock("export:{tenant}", guard.Limit(3))}
	fmt.Println(len(tasks), h != nil)
	// Output: 1 true
}
