package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

const taskCharge = "order:charge"

// chargeTask is the payload of a task. The lock's key has the OrderID.
type chargeTask struct {
	OrderID string `json:"order_id"`
}

// queue enqueues and runs the tasks that charge orders.
type queue struct {
	client *asynq.Client
	server *asynq.Server
	name   string
}

// startQueue runs up to concurrency tasks at a time, and reports the error of each run to ran.
func startQueue(rdb *backend, concurrency int, s *shop, ran func(error)) (*queue, error) {
	q := &queue{client: asynq.NewClientFromRedisClient(rdb.client), name: rdb.run}
	q.server = asynq.NewServerFromRedisClient(rdb.client, guardasynq.Configure(asynq.Config{
		Concurrency: concurrency,
		Queues:      map[string]int{q.name: 1},
		// By default asynq looks for work every second, and for tasks to repeat every five
		// seconds. A burst ends sooner.
		TaskCheckInterval:        10 * time.Millisecond,
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return time.Second },
		LogLevel:                 asynq.FatalLevel,
	}))
	tasks := asynq.NewServeMux()
	watch := func(next asynq.Handler) asynq.Handler { // outside the lock: it also gets the runs that the lock refused
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			err := next.ProcessTask(ctx, t)
			ran(err)
			return err
		})
	}
	tasks.Use(watch, s.locks.charge)
	tasks.HandleFunc(taskCharge, func(ctx context.Context, t *asynq.Task) error {
		var task chargeTask
		err := json.Unmarshal(t.Payload(), &task)
		if err == nil {
			_, err = s.pay(ctx, task.OrderID)
		}
		if errors.Is(err, errNoOrder) {
			return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
		}
		return err
	})
	return q, q.server.Start(tasks)
}

// stop waits for running tasks.
func (q *queue) stop(context.Context) error {
	q.server.Shutdown()
	return nil
}

func (q *queue) add(ctx context.Context, order string) error {
	payload, err := json.Marshal(chargeTask{OrderID: order})
	if err != nil {
		return err
	}
	_, err = q.client.EnqueueContext(ctx, asynq.NewTask(taskCharge, payload), asynq.Queue(q.name), asynq.Timeout(30*time.Second))
	return err
}
