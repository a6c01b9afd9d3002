package outcome

import (
	"context"
	"fmt"
	"net/http"
	"slices"
)

var busyStatuses = []int{
	http.StatusConflict, http.StatusLocked, http.StatusTooManyRequests, http.StatusServiceUnavailable,
}

// CheckBusyStatus says whether code may stand for a busy lock.
func CheckBusyStatus(code int) error {
	if !slices.Contains(busyStatuses, code) {
		return fmt.Errorf("BusyStatus %d is none of %v", code, busyStatuses)
	}
	return nil
}

type busyStatusKey struct{}

// WithBusyStatus makes code the status of a busy lock for the request of ctx, also for
// locks that its handler takes and has answered by the adapter. 0 leaves it as it is.
func WithBusyStatus(ctx context.Context, code int) context.Context {
	if code == 0 {
		return ctx
	}
	return context.WithValue(ctx, busyStatusKey{}, code)
}

func busyStatus(ctx context.Context) int {
	if code, ok := ctx.Value(busyStatusKey{}).(int); ok {
		return code
	}
	return http.StatusConflict
}
