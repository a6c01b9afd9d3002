package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
)

// The events on spans. Metrics count all others.
const (
	eventLoss           = "redlatch.lock.loss"
	eventRenewalFailure = "redlatch.lock.renewal_failure"
)

// Event implements guard.Observer.
func (o *observer) Event(ctx context.Context, l guard.Lock, e guard.Event) {
	labels, failure := o.labels.of(l), errorType(e.Err)
	switch e.Kind {
	case guard.EventRenewal:
		o.metrics.renewals.Add(ctx, 1, labels.counted(failure)...)
	case guard.EventStoreFailure:
		if e.Op == "renew" {
			failure = typeStoreUnavailable // the error is the client's own: of any type
			o.metrics.renewals.Add(ctx, 1, labels.counted(failure)...)
			o.addEvent(ctx, l.Key, eventRenewalFailure, failure)
		}
	case guard.EventLoss:
		if errors.Is(e.Err, guard.ErrClosed) {
			failure = typeClosed
		}
		o.metrics.losses.Add(ctx, 1, labels.counted(failure)...)
		o.addEvent(ctx, l.Key, eventLoss, failure)
	case guard.EventHandover:
		o.metrics.handovers.Add(ctx, 1, labels.add...)
	case guard.EventFailedOpen:
		o.metrics.failedOpen.Add(ctx, 1, labels.counted(failure)...)
	case guard.EventReplayed, guard.EventOtherInput, guard.EventUnknownOutcome, guard.EventNotKept:
		o.metrics.recorded.Add(ctx, 1, labels.counted(failure)...)
	case guard.EventReleaseFailure:
		// If the caller did not wait for the release, it is on its way, and no error.
		if h := o.holdIn(ctx, l.Key); h != nil && errors.Is(e.Err, guard.ErrStore) {
			h.releaseFailed(e.Err)
		}
	}
}

// addEvent adds an event to the span of the hold that it is about, or to the caller's.
func (o *observer) addEvent(ctx context.Context, key, name, failure string) {
	span := trace.SpanFromContext(ctx)
	if h := o.holdIn(ctx, key); h != nil {
		span = h.span
	}
	span.AddEvent(name, trace.WithAttributes(attrErrorType.String(failure)))
}
