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

	maxMetadata = 256 // bytes, see guard.Metadata
)

// Metadata is guard.Metadata of text and, after it, the W3C traceparent of ctx's span, so
// that the span of a caller that finds the lock busy links to it, in whichever process. The hold's
// own span does not exist yet when a lock is asked for: the link goes to its parent. BusyError.Holder has both.
//
// The traceparent takes up to 68 of the 256 bytes of a Metadata. It is left out where
// it does not fit, and if ctx has no span that is sampled. Traceparent does the same for
// calls that set no metadata of their own, as those of adapters.
func Metadata(ctx context.Context, text string) guard.LockOption {
	if parent := Traceparent(ctx); parent != "" {
		both := parent
		if text != "" {
			both = text + " " + parent
		}
		if len(both) <= maxMetadata {
			text = both
		}
	}
	return guard.Metadata(text)
}

// Traceparent is what Metadata puts after its text: "traceparent=" and the W3C
// traceparent of ctx's span, 67 bytes in all, or nothing if ctx has no span that is
// sampled. It is made for guard.MetadataFunc, so that every lock of a Guard, or of a route,
// is linked to by those that wait for it elsewhere:
//
//	g, err := guard.New(rdb, guard.Observe(tracing.New()), guard.MetadataFunc(tracing.Traceparent))
//
// A function of one's own may put a text in front of it, with a space between them.
func Traceparent(ctx context.Context) string {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() || !sc.IsSampled() {
		return ""
	}
	return parentMark + parentBegin + sc.TraceID().String() + "-" + sc.SpanID().String() + parentEnd
}

// splitHolder takes apart what Metadata, or a function with Traceparent, put together. What does not look like that is
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

// parseParent returns a SpanContext that is not valid if parent has another form: an id that cannot be
// read is zero.
func parseParent(parent string) trace.SpanContext {
	ids := strings.TrimSuffix(strings.TrimPrefix(parent, parentBegin), parentEnd)
	traceText, spanText, _ := strings.Cut(ids, "-")
	traceID, _ := trace.TraceIDFromHex(traceText)
	spanID, _ := trace.SpanIDFromHex(spanText)
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.FlagsSampled, Remote: true,
	})
}
