package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

const (
	taskCharge = "order:charge"

	taskTimeout    = 30 * time.Second
	taskRetryDelay = time.Second

	// asynq looks for work every second, and for tasks to repeat every five. A burst
	// that is over in seconds has no use for tasks that come when it is.
	taskCheckInterval    = 10 * time.Millisecond
	delayedCheckInterval = 100 * time.Millisecond
)

// chargeTask is the payload of a task. The lock's key is made of it.
type chargeTask struct {
	OrderID string `json:"order_id"`
}

// worker enqueues and runs the tasks that charge orders.
type worker struct {
	client  *asynq.Client
	server  *asynq.Server
	queue   string
	service *service
	signals *telemetry
	ran     func(error) // told how each run of a task ended
}

func newWorker(rdb redis.UniversalClient, queue string, concurrency int, s *service, ran func(error)) *worker {
	return &worker{
		client: asynq.NewClientFromRedisClient(rdb),
		server: asynq.NewServerFromRedisClient(rdb, guardasynq.Configure(asynq.Config{
			Concurrency:              concurrency,
			Queues:                   map[string]int{queue: 1},
			TaskCheckInterval:        taskCheckInterval,
			DelayedTaskCheckInterval: delayedCheckInterval,
			RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return taskRetryDelay },
			LogLevel:                 asynq.FatalLevel,
		})),
		queue:   queue,
		service: s,
		ran:     ran,
	}
}

func (w *worker) start() error {
	tasks := asynq.NewServeMux()
	tasks.Use(w.signals.task, w.watch, w.service.locks.charge)
	tasks.HandleFunc(taskCharge, w.charge)
	return w.server.Start(tasks)
}

// stop waits for the tasks that run.
func (w *worker) stop() { w.server.Shutdown() }

func (w *worker) enqueue(ctx context.Context, order string) error {
	payload, err := json.Marshal(chargeTask{OrderID: order})
	if err != nil {
		return err
	}
	_, err = w.client.EnqueueContext(ctx, asynq.NewTaskWithHeaders(taskCharge, payload, w.signals.headers(ctx)),
		asynq.Queue(w.queue), asynq.Timeout(taskTimeout))
	return err
}

func (w *worker) charge(ctx context.Context, t *asynq.Task) error {
	var task chargeTask
	if err := json.Unmarshal(t.Payload(), &task); err != nil {
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	_, err := w.service.pay(ctx, task.OrderID)
	if errors.Is(err, errNoOrder) {
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	return err
}

// watch is outside the lock: it sees the runs that the lock refused, too.
func (w *worker) watch(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		err := next.ProcessTask(ctx, t)
		w.ran(err)
		return err
	})
}
