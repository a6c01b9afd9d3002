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
// timeout, is no answer.
func Note(ctx context.Context, begun time.Time, err error) {
	answered, ok := ctx.Value(key{}).(func(time.Duration))
	if _, replied := Reply(err); ok && (err == nil || replied) {
		answered(time.Since(begun))
	}
}

// Reply gives the text of an error that Redis itself replied.
func Reply(err error) (text string, ok bool) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return "", false
	}
	return reply.Error(), true
}
