package tracing

import (
	"maps"
	"slices"
	"strings"
	"sync"

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

// labelCache has the labels of names.
type labelCache struct {
	begin func(*labels) // called once for each labels

	mu    sync.Mutex // protects what follows
	known map[labelID]*labels
}

func (c *labelCache) of(lock guard.Lock) *labels {
	l, isNew := c.find(lock)
	if isNew { // without mu: a collection of metrics may be waiting in all
		c.begin(l)
	}
	return l
}

func (c *labelCache) find(lock guard.Lock) (l *labels, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := labelID{lock.Name, modeOf(lock.Limit)}
	if c.known[id] == nil && len(c.known) >= mostNames {
		id.name = otherName
	}
	if c.known[id] == nil {
		c.known[id], isNew = newLabels(id), true
	}
	return c.known[id], isNew
}

func (c *labelCache) all() []*labels {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.known))
}
