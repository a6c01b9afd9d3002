package tracing

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
)

// wait is one caller's wait for a lock. It is the context that WaitStart returns.
type wait struct {
	context.Context //nolint:containedctx // it is a context, in one allocation with what it carries

	key    waitedKey
	labels *labels
	span   trace.Span    // nil while it may be a re-entry, which has none
	place  *list.Element // in the line of its name; nil if it is not counted as waiting
	caller trace.SpanID
	since  mark // what was in the way when the wait began
}

type waitedKey struct{ *observer }

// Value implements context.Context.
func (w *wait) Value(key any) any {
	if key == w.key {
		return w
	}
	return w.Context.Value(key)
}

// WaitStart implements guard.Observer.
func (o *observer) WaitStart(ctx context.Context, l guard.Lock) context.Context {
	labels := o.labels.of(l)
	// Under a hold of the key this may be a re-entry: WaitEnd will know, and begin the
	// span then if it is not. Without a lease, as after guard.Detach, it cannot be one.
	if o.holdIn(ctx, l.Key) != nil {
		w := &wait{Context: ctx, key: o.waitedKey, labels: labels}
		_, leased := guard.FromContext(ctx)
		return o.counting(w, !leased)
	}
	spanCtx, span := o.tracer.Start(ctx, labels.acquire, labels.span...)
	if o.unreported(ctx, span) {
		return ctx
	}
	w := &wait{Context: spanCtx, key: o.waitedKey, labels: labels, span: span}
	w.begun(ctx, o, l)
	return o.counting(w, true)
}

func (o *observer) counting(w *wait, counted bool) *wait {
	if counted {
		w.place = w.labels.line.join()
		o.metrics.waiting.Add(w, 1, w.labels.add...)
	}
	return w
}

// begun sets the attributes that are known from the start.
func (w *wait) begun(ctx context.Context, o *observer, l guard.Lock) {
	if !w.span.IsRecording() {
		return
	}
	w.span.SetAttributes(o.ownAttributes(ctx, l)...)
	w.caller = trace.SpanContextFromContext(ctx).SpanID()
	w.since = o.blockers.wait(l.Key)
}

// WaitEnd implements guard.Observer.
func (o *observer) WaitEnd(ctx context.Context, l guard.Lock, r guard.WaitResult) {
	w, _ := ctx.Value(o.waitedKey).(*wait)
	if w == nil {
		return
	}
	if w.place != nil {
		w.labels.line.leave(w.place)
		o.metrics.waiting.Add(ctx, -1, w.labels.add...)
	}
	if w.span == nil {
		if r.Depth > 1 {
			return
		}
		w.beginLate(o, l, r)
	}
	inTheWay := o.blockers.passed(w.since)
	failure := waitErrorType(r)
	if w.span.IsRecording() {
		w.describe(r, failure)
		if !o.withoutLinks {
			w.link(r, inTheWay)
		}
	}
	//nolint:contextcheck // w has this observer's span, for the exemplar; ctx may have another's
	o.metrics.wait.Record(w, r.Elapsed.Seconds(), w.labels.ended(r.Outcome, failure)...)
	w.span.End()
}

// beginLate starts the span of a wait that might have been a re-entry.
func (w *wait) beginLate(o *observer, l guard.Lock, r guard.WaitResult) {
	caller, start := w.Context, slices.Clip(w.labels.span)
	w.Context, w.span = o.tracer.Start(caller, w.labels.acquire,
		append(start, trace.WithTimestamp(time.Now().Add(-r.Elapsed)))...)
	w.begun(caller, o, l)
}

// describe puts onto the span how the wait ended.
func (w *wait) describe(r guard.WaitResult, failure string) {
	attributes := append(make([]attribute.KeyValue, 0, 5), attrOutcome.String(r.Outcome), attrQueued.Bool(r.Queued))
	if r.Queued && r.Err == nil {
		attributes = append(attributes, attrLocal.Bool(r.Local))
	}
	if text, _ := splitHolder(r.Holder); text != "" {
		attributes = append(attributes, attrHolder.String(text))
	}
	if failure != "" {
		attributes = append(attributes, attrErrorType.String(failure))
		w.span.SetStatus(codes.Error, failure) // no text: it may name keys
	}
	w.span.SetAttributes(attributes...)
}

// link links to the hold that was waited for: the last hold that this process knows,
// and the hold that the lock's metadata names.
func (w *wait) link(r guard.WaitResult, inTheWay trace.SpanContext) {
	if !r.Queued && !errors.Is(r.Err, guard.ErrBusy) {
		return // nothing was in the way
	}
	w.span.AddLink(trace.Link{SpanContext: inTheWay}) // no link if it is the zero value
	_, carried := splitHolder(r.Holder)
	sameHold := carried.TraceID() == inTheWay.TraceID()
	if own := carried.SpanID() == w.caller; !sameHold && !own {
		w.span.AddLink(trace.Link{SpanContext: carried})
	}
}
