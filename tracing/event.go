package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
)

const eventPrefix = "guard.lock."

// Event implements guard.Observer.
func (o *observer) Event(ctx context.Context, l guard.Lock, e guard.Event) {
	labels := o.labels.of(l)
	failure := errorType(e.Err)
	if e.Kind == guard.StoreFailure {
		failure = typeStoreUnavailable // the error is the client's own: of any type
	}
	switch {
	case e.Kind == guard.Renewal, e.Kind == guard.StoreFailure && e.Op == "renew":
		o.metrics.renewals.Add(ctx, 1, labels.counted(failure)...)
	case e.Kind == guard.Handover:
		o.metrics.handovers.Add(ctx, 1, labels.add...)
	case e.Kind == guard.FailedOpen:
		o.metrics.failedOpen.Add(ctx, 1, labels.counted(failure)...)
	case e.Kind == guard.Replayed, e.Kind == guard.OtherInput, e.Kind == guard.UnknownOutcome, e.Kind == guard.NotKept:
		o.metrics.recorded.Add(ctx, 1, labels.counted(failure)...)
	case e.Kind == guard.ReleaseFailure && errors.Is(e.Err, guard.ErrStore):
		// One that the caller did not wait for is on its way, and no error.
		if h := o.holdIn(ctx, l.Key); h != nil {
			h.releaseFailed(e.Err)
		}
	}
	if span := o.spanOf(ctx, l.Key); span.IsRecording() {
		addEvent(span, l, e, failure)
	}
}

// spanOf gives the span that an event belongs to: the one of the hold that it is about,
// else what ctx has, which is the span of the wait or the caller's.
func (o *observer) spanOf(ctx context.Context, key string) trace.Span {
	if h := o.holdIn(ctx, key); h != nil {
		return h.span
	}
	return trace.SpanFromContext(ctx)
}

func addEvent(span trace.Span, l guard.Lock, e guard.Event, failure string) {
	attributes := append(make([]attribute.KeyValue, 0, 4), attrName.String(l.Name))
	if e.Op != "" {
		attributes = append(attributes, attrOperation.String(e.Op))
	}
	if e.Err != nil {
		attributes = append(attributes, attrErrorType.String(failure), attrErrorMessage.String(e.Err.Error()))
	}
	span.AddEvent(eventPrefix+e.Kind.String(), trace.WithAttributes(attributes...))
}
