// Command asynq charges orders by tasks, many at a time, but never two for the same order.
// It brings its own Redis, in this process; with REDIS_URL set it uses the Redis there.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

func main() {
	embedded, err := embedded.Start()
	if err == nil {
		err = run(cmp.Or(os.Getenv("REDIS_URL"), "redis://"+embedded.Addr()), os.Stdout)
	}
	if err != nil {
		log.Fatal("asynq: ", err)
	}
}

func run(redisURL string, out io.Writer) error {
	opts, err := redis.ParseURL(redisURL)
	if err != nil {
		return errors.New("REDIS_URL is not the URL of a Redis") // err may hold its password
	}
	rdb, name := redis.NewClient(opts), "example-"+rand.Text()
	defer rdb.Close()
	g, err := guard.New(rdb, guard.Prefix(name))
	if err != nil {
		return err
	}
	defer g.Close()
	defer rdb.Unlink(context.Background(), "asynq:{"+name+"}:processed", "asynq:{"+name+"}:failed")
	defer func() { _ = asynq.NewInspectorFromRedisClient(rdb).DeleteQueue(name, true) }()

	kinds := []string{"order:charge", "order:charge", "order:charge", "order:report"}
	client, ended := asynq.NewClientFromRedisClient(rdb), make(chan string, 4*len(kinds))
	for i := range cap(ended) {
		task := asynq.NewTask(kinds[i%len(kinds)], fmt.Appendf(nil, `{"id":%d}`, i%len(kinds)))
		if _, err := client.Enqueue(task, asynq.Queue(name)); err != nil {
			return err
		}
	}
	tasks := asynq.NewServeMux()
	tasks.Use(guardasynq.Annotate(g, guardasynq.Tasks{
		"order:": guardasynq.Lock("order:{id}"), // wait for a second, then come again later
		// A report that somebody is building already is not built a second time.
		"order:report": guardasynq.Lock("report:{id}", guard.NoWait()).BusyStrategy(guardasynq.Drop),
	}))
	tasks.HandleFunc("order:", func(ctx context.Context, t *asynq.Task) error {
		lease, _ := guard.FromContext(ctx)
		runs, err := rdb.Get(ctx, name+":"+lease.Key()).Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		time.Sleep(100 * time.Millisecond) // two at a time would write the same number
		ended <- fmt.Sprintf("%s under %s: run %d", t.Type(), lease.Key(), runs+1)
		return rdb.Set(ctx, name+":"+lease.Key(), runs+1, time.Minute).Err()
	})
	srv := asynq.NewServerFromRedisClient(rdb, guardasynq.Configure(asynq.Config{
		Concurrency: cap(ended), Queues: map[string]int{name: 1}, LogLevel: asynq.ErrorLevel,
		ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, t *asynq.Task, err error) {
			if errors.Is(err, asynq.RevokeTask) {
				ended <- fmt.Sprintf("%s skipped: %v", t.Type(), err)
			}
		}),
	}))
	if err := srv.Start(tasks); err != nil {
		return err
	}
	defer srv.Shutdown()
	for range cap(ended) {
		_, _ = fmt.Fprintln(out, <-ended)
	}
	return nil
}
