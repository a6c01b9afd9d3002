package tracing

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
)

// hold is a lock that is held, by the call that took it and by those that re-entered. It
// is the context that HoldStart returns.
type hold struct {
	context.Context //nolint:containedctx // it is a context, in one allocation with what it carries

	key     holdingKey
	lockKey string
	outer   *hold // the next one in the context
	labels  *labels
	span    trace.Span
	begun   time.Time
	mark    mark // as an obstacle of other callers

	mu      sync.Mutex
	open    int   // calls that have not ended; 0 = the hold has ended
	failure error // the release's, if it was not confirmed
}

type holdingKey struct{ *observer }

// Value implements context.Context.
func (h *hold) Value(key any) any {
	if key == h.key {
		return h
	}
	return h.Context.Value(key)
}

// holdIn returns the hold of key that ctx runs under, if it has not ended.
func (o *observer) holdIn(ctx context.Context, key string) *hold {
	h, _ := ctx.Value(o.holdingKey).(*hold)
	for ; h != nil; h = h.outer {
		if h.lockKey == key && h.calls() > 0 {
			return h
		}
	}
	return nil
}

func (h *hold) calls() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open
}

// enter counts a re-entry in, unless the hold has ended.
func (h *hold) enter() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open > 0 {
		h.open++
	}
}

// leave counts a call out. It says whether that was the last one.
func (h *hold) leave() (last bool, failure error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == 0 {
		return false, nil
	}
	h.open--
	return h.open == 0, h.failure
}

func (h *hold) releaseFailed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failure = err
}

// HoldStart implements guard.Observer.
func (o *observer) HoldStart(ctx context.Context, l guard.Lock, started guard.Hold) context.Context {
	if started.Depth > 1 {
		if h := o.holdIn(ctx, l.Key); h != nil {
			h.enter()
		}
		return ctx
	}
	labels := o.labels.of(l)
	spanCtx, span := o.tracer.Start(ctx, labels.hold, labels.span...)
	if o.unreported(ctx, span) {
		return ctx
	}
	outer, _ := ctx.Value(o.holdingKey).(*hold)
	h := &hold{
		Context: spanCtx, key: o.holdingKey, lockKey: l.Key, outer: outer,
		labels: labels, span: span, begun: time.Now(), open: 1,
	}
	if h.span.IsRecording() {
		h.span.SetAttributes(append(o.ownAttributes(ctx, l),
			attrFence.Int64(int64(started.Fence)))...)
		if sc := h.span.SpanContext(); sc.IsSampled() {
			h.mark = o.blockers.hold(l.Key, sc)
		}
	}
	o.metrics.active.Add(h, 1, h.labels.add...)
	return h
}

// HoldEnd implements guard.Observer. A hold that was re-entered has ended when the last of
// its calls is, whichever that is.
func (o *observer) HoldEnd(ctx context.Context, l guard.Lock, r guard.HoldResult) {
	h := o.holdIn(ctx, l.Key)
	if h == nil {
		return
	}
	last, failure := h.leave()
	if !last {
		return
	}
	o.blockers.released(h.mark)
	if r.Err != nil {
		failure = r.Err
	}
	kind := errorType(failure)
	if h.span.IsRecording() {
		attributes := append(make([]attribute.KeyValue, 0, 2), attrOutcome.String(r.Outcome))
		if failure != nil {
			attributes = append(attributes, attrErrorType.String(kind))
			h.span.SetStatus(codes.Error, kind) // no text: it may name keys
		}
		h.span.SetAttributes(attributes...)
	}
	o.metrics.active.Add(ctx, -1, h.labels.add...)
	//nolint:contextcheck // h has this observer's span, for the exemplar; ctx may have another's
	o.metrics.hold.Record(h, time.Since(h.begun).Seconds(), h.labels.ended(r.Outcome, kind)...)
	h.span.End()
}
