package tracing

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
)

// mostNames bounds the names on spans and metrics. Names are few; if a program makes them of
// keys, neither memory nor the number of series grows with them.
const mostNames = 1000

// otherName is the name of every lock after the first mostNames.
const otherName = "other"

// labels is what depends on a lock's name and mode alone, made once for each.
type labels struct {
	name    string // empty if the lock has none
	mode    string // empty if it is exclusive
	acquire string // the names of the spans
	hold    string
	span    []trace.SpanStartOption
	add     []metric.AddOption
	oldest  []metric.ObserveOption
	line    line
}

// labelID is what a lock's labels depend on.
type labelID struct{ name, mode string }

func newLabels(id labelID) *labels {
	l := &labels{
		name:    id.name,
		mode:    id.mode,
		acquire: strings.TrimSpace("acquire " + id.name),
		hold:    strings.TrimSpace("hold " + id.name),
	}
	l.span = []trace.SpanStartOption{trace.WithAttributes(l.common()...)}
	l.add = l.counted("")
	l.oldest = []metric.ObserveOption{l.set("", "")}
	return l
}

// counted returns the attributes of a counter.
func (l *labels) counted(errorType string) []metric.AddOption {
	return []metric.AddOption{l.set("", errorType)}
}

// ended returns the attributes of a wait or a hold that has ended.
func (l *labels) ended(outcome, errorType string) []metric.RecordOption {
	return []metric.RecordOption{l.set(outcome, errorType)}
}

func (l *labels) set(outcome, errorType string) metric.MeasurementOption {
	all := l.common()
	if outcome != "" {
		all = append(all, attrOutcome.String(outcome))
	}
	if errorType != "" {
		all = append(all, attrErrorType.String(errorType))
	}
	return metric.WithAttributeSet(attribute.NewSet(all...))
}

// common returns the attributes of all spans and metrics, with room for two more.
func (l *labels) common() []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, 4)
	if l.name != "" {
		all = append(all, attrName.String(l.name))
	}
	if l.mode != "" {
		all = append(all, attrMode.String(l.mode))
	}
	return all
}

// labelCache has the labels of names. It is read without a lock.
type labelCache struct {
	known atomic.Pointer[map[labelID]*labels]
	mu    sync.Mutex    // held to replace known
	begin func(*labels) // called once for each labels
}

func (c *labelCache) of(lock guard.Lock) *labels {
	if l, _ := c.find(lock); l != nil {
		return l
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l, id := c.find(lock)
	if l != nil {
		return l
	}
	next := make(map[labelID]*labels)
	maps.Copy(next, c.all())
	l = newLabels(id)
	next[id] = l
	c.known.Store(&next)
	c.begin(l)
	return l
}

// find returns the labels of a lock, or nil and the id that they are to have.
func (c *labelCache) find(lock guard.Lock) (*labels, labelID) {
	all, id := c.all(), labelID{lock.Name, modeOf(lock.Limit)}
	if l := all[id]; l != nil || len(all) < mostNames {
		return l, id
	}
	id.name = otherName
	return all[id], id
}

func (c *labelCache) all() map[labelID]*labels {
	if known := c.known.Load(); known != nil {
		return *known
	}
	return nil
}
