package tracing

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
)

// The form of a traceparent, as of version 00 of W3C Trace Context.
const (
	parentMark   = "traceparent="
	parentBegin  = "00-"
	parentEnd    = "-01" // sampled: nothing else is carried
	parentLength = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
)

// Metadata is guard.Metadata of text and, after it, the W3C traceparent of ctx's span, so
// that the span of whoever is kept waiting, in whichever process, links to it. The hold's
// own span does not exist yet when a lock is asked for; what is linked to is the span
// that it will be a child of. BusyError.Holder has both.
//
// The traceparent takes up to 68 bytes of guard.MaxMetadataLength. It is left out where
// it does not fit, and if ctx has no span that is sampled.
func Metadata(ctx context.Context, text string) guard.LockOption {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() && sc.IsSampled() {
		if both := joinHolder(text, sc); len(both) <= guard.MaxMetadataLength {
			text = both
		}
	}
	return guard.Metadata(text)
}

func joinHolder(text string, sc trace.SpanContext) string {
	if text != "" {
		text += " "
	}
	return text + parentMark + parentBegin + sc.TraceID().String() + "-" + sc.SpanID().String() + parentEnd
}

// splitHolder takes apart what Metadata put together. What does not look like that is
// text.
func splitHolder(holder string) (text string, sc trace.SpanContext) {
	at := len(holder) - len(parentMark) - parentLength
	if at < 0 || !strings.HasPrefix(holder[at:], parentMark) || at > 0 && holder[at-1] != ' ' {
		return holder, sc
	}
	if sc = parseParent(holder[at+len(parentMark):]); !sc.IsValid() {
		return holder, sc
	}
	return strings.TrimSuffix(holder[:at], " "), sc
}

func parseParent(parent string) (sc trace.SpanContext) {
	ids, sampled := strings.CutSuffix(parent, parentEnd)
	ids, known := strings.CutPrefix(ids, parentBegin)
	traceText, spanText, _ := strings.Cut(ids, "-")
	traceID, traceErr := trace.TraceIDFromHex(traceText)
	spanID, spanErr := trace.SpanIDFromHex(spanText)
	if !sampled || !known || traceErr != nil || spanErr != nil {
		return sc
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.FlagsSampled, Remote: true,
	})
}
