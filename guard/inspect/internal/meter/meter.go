package meter

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

type key struct{}

// With has answered called after each answer under ctx, on the goroutine that asked.
func With(ctx context.Context, answered func(took time.Duration)) context.Context {
	return context.WithValue(ctx, key{}, answered)
}

// Note says that a question that began at begun ended with err. An error of the client, as a
// timeout, is no answer; one that Redis replied is.
func Note(ctx context.Context, begun time.Time, err error) {
	answered, ok := ctx.Value(key{}).(func(time.Duration))
	if !ok {
		return
	}
	if reply := redis.Error(nil); err == nil || errors.As(err, &reply) {
		answered(time.Since(begun))
	}
}
