package tracing

import (
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
)

// mostNames is how many names the cache keeps. Names are few; if somebody made them of
// keys, memory must not grow with them.
const mostNames = 1000

// labels is what depends on a lock's name alone, made once for each.
type labels struct {
	name     string
	acquire  string // the names of the spans
	hold     string
	span     []trace.SpanStartOption
	add      []metric.AddOption
	acquired []metric.RecordOption // the common outcomes
	released []metric.RecordOption
}

func newLabels(name string) *labels {
	l := &labels{
		name:    name,
		acquire: "acquire " + name,
		hold:    "hold " + name,
		span:    []trace.SpanStartOption{trace.WithAttributes(attrName.String(name))},
	}
	l.add = l.counted("")
	l.acquired = l.ended(guard.OutcomeAcquired, "")
	l.released = l.ended(guard.OutcomeReleased, "")
	return l
}

// counted gives the attributes of what is counted.
func (l *labels) counted(errorType string) []metric.AddOption {
	if errorType == "" && l.add != nil {
		return l.add
	}
	return []metric.AddOption{l.set("", errorType)}
}

// ended gives the attributes of a wait or a hold that is over.
func (l *labels) ended(outcome, errorType string) []metric.RecordOption {
	switch {
	case errorType != "":
	case outcome == guard.OutcomeAcquired && l.acquired != nil:
		return l.acquired
	case outcome == guard.OutcomeReleased && l.released != nil:
		return l.released
	}
	return []metric.RecordOption{l.set(outcome, errorType)}
}

func (l *labels) set(outcome, errorType string) metric.MeasurementOption {
	all := append(make([]attribute.KeyValue, 0, 3), attrName.String(l.name))
	if outcome != "" {
		all = append(all, attrOutcome.String(outcome))
	}
	if errorType != "" {
		all = append(all, attrErrorType.String(errorType))
	}
	return metric.WithAttributeSet(attribute.NewSet(all...))
}

// labelCache gives the labels of names. It is read without a lock.
type labelCache struct {
	known atomic.Pointer[map[string]*labels]
	mu    sync.Mutex // held to replace known
}

func (c *labelCache) of(name string) *labels {
	if l := c.lookUp(name); l != nil {
		return l
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lookUp(name); l != nil {
		return l
	}
	l := newLabels(name)
	next := make(map[string]*labels)
	if known := c.known.Load(); known != nil {
		if len(*known) == mostNames {
			return l
		}
		maps.Copy(next, *known)
	}
	next[name] = l
	c.known.Store(&next)
	return l
}

func (c *labelCache) lookUp(name string) *labels {
	if known := c.known.Load(); known != nil {
		return (*known)[name]
	}
	return nil
}
