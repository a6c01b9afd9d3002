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

// mostNames is how many names the cache keeps. Names are few; if a program made them of
// keys, memory must not grow with them.
const mostNames = 1000

// labels is what depends on a lock's name and mode alone, made once for each.
type labels struct {
	name     string
	mode     string // empty if it is exclusive
	acquire  string // the names of the spans
	hold     string
	span     []trace.SpanStartOption
	add      []metric.AddOption
	acquired []metric.RecordOption // the common outcomes
	released []metric.RecordOption
}

// labelID is what a lock's labels depend on.
type labelID struct{ name, mode string }

func newLabels(id labelID) *labels {
	l := &labels{
		name:    id.name,
		mode:    id.mode,
		acquire: "acquire " + id.name,
		hold:    "hold " + id.name,
	}
	l.span = []trace.SpanStartOption{trace.WithAttributes(l.common(1)...)}
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

// ended gives the attributes of a wait or a hold that has ended.
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
	all := l.common(4)
	if outcome != "" {
		all = append(all, attrOutcome.String(outcome))
	}
	if errorType != "" {
		all = append(all, attrErrorType.String(errorType))
	}
	return metric.WithAttributeSet(attribute.NewSet(all...))
}

// common gives the attributes of everything, with room for as many as there may be.
func (l *labels) common(room int) []attribute.KeyValue {
	all := append(make([]attribute.KeyValue, 0, room), attrName.String(l.name))
	if l.mode != "" {
		all = append(all, attrMode.String(l.mode))
	}
	return all
}

// labelCache gives the labels of names. It is read without a lock.
type labelCache struct {
	known atomic.Pointer[map[labelID]*labels]
	mu    sync.Mutex // held to replace known
}

func (c *labelCache) of(lock guard.Lock) *labels {
	id := labelID{lock.Name, lock.Mode}
	if l := c.lookUp(id); l != nil {
		return l
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lookUp(id); l != nil {
		return l
	}
	l := newLabels(id)
	next := make(map[labelID]*labels)
	if known := c.known.Load(); known != nil {
		if len(*known) == mostNames {
			return l
		}
		maps.Copy(next, *known)
	}
	next[id] = l
	c.known.Store(&next)
	return l
}

func (c *labelCache) lookUp(id labelID) *labels {
	if known := c.known.Load(); known != nil {
		return (*known)[id]
	}
	return nil
}
