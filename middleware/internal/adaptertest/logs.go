package adaptertest

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// Logs checks what is logged, and that nothing else is. It belongs into a test that is not
// parallel, as it listens to slog's default logger.
func Logs(t *testing.T, adapter Adapter) {
	t.Run("Middleware", func(t *testing.T) { logs(t, adapter.Build) })
	t.Run("Annotate", func(t *testing.T) {
		logs(t, func(tb testing.TB, s Setup) http.Handler { s.Table = true; return adapter.Build(tb, s) })
	})
}

func logs(t *testing.T, build Build) {
	for name, row := range map[string]struct {
		given given
		fault string // "" for what is no fault of the program
	}{
		"no guard":                     {unguarded, "no Guard"},
		"template does not fit":        {template("order:{order}"), "key template does not fit the route"},
		"own key function":             {keyed(errOwn, false), "key function"},
		"own key function that panics": {keyed(errOwn, true), "key function"},
		"own key that is too long": {func(c *circumstances) {
			c.s.Key = func() (string, error) { return strings.Repeat("secret", 100), nil }
		}, "key function"},
		"own metadata too long":          {func(c *circumstances) { c.s.Guard = guardtest.NewMemoryGuard(c.t, longMetadata) }, "option"},
		"own key function with a status": {keyed(statusError{}, false), ""},
		"the program's own OnError":      {func(c *circumstances) { c.s.Guard, c.s.OnError = nil, ignore }, ""},
		"value missing":                  {template("{header:X-Tenant}"), ""},
		"busy":                           {held(guard.NoWait()), ""},
		"store down":                     {down, ""},
		"closed":                         {func(c *circumstances) { _ = c.b.Close() }, ""},
		"lost":                           {lose, ""},
		"nothing is wrong":               {func(*circumstances) {}, ""},
		"an own error":                   {func(c *circumstances) { c.s.Fail = errOwn }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			logged := listen(t)
			b := newBench(t)
			s := Setup{Guard: b.Guard, Template: "order:{id}", Work: func(http.ResponseWriter, *http.Request) {}}
			row.given(&circumstances{t, b, &s, nil})
			h, refused := built(t, build, s)
			if refused {
				return
			}
			for range 3 {
				serve(h, pay("7"))
			}
			if row.fault == "" {
				assert.Empty(t, logged.all())
				return
			}
			records := logged.all()
			if !assert.Len(t, records, 1, "once for each route") {
				return
			}
			assert.Equal(t, slog.LevelError, records[0].level)
			assert.Contains(t, records[0].text, "the program is at fault")
			assert.Equal(t, row.fault, records[0].attrs["fault"])
			assert.Contains(t, records[0].attrs["route"], "POST /orders/")
			assert.Contains(t, records[0].attrs["error"], "guard: ")
			for _, private := range []string{"secret", "order:7"} {
				assert.NotContains(t, records[0].attrs["error"], private)
			}
			head := pay("7")
			head.Method = http.MethodHead
			serve(h, head)
			assert.Len(t, logged.all(), 2, "it is another route")
		})
	}
}

// LogsLoss checks that each loss is logged that came too late to be answered.
func LogsLoss(t *testing.T, adapter Adapter) {
	logged := listen(t)
	b := newBench(t)
	s := Setup{Guard: b.Guard, Template: "order:{id}", Work: func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun")
		b.lose(r.Context(), "order:7")
	}}
	for range 2 {
		serve(adapter.Build(t, s), pay("7"))
	}
	records := logged.all()
	if assert.Len(t, records, 2) {
		assert.Equal(t, slog.LevelError, records[0].level)
		assert.Contains(t, records[0].text, "the lock was lost after the answer had begun")
		assert.Contains(t, records[0].attrs["route"], "POST /orders/")
		assert.NotContains(t, records[0].attrs["error"], "order:7")
	}
	told := s
	told.Work = func(w http.ResponseWriter, r *http.Request) {
		b.lose(r.Context(), "order:7")
		http.Error(w, "own", http.StatusServiceUnavailable)
	}
	assert.Equal(t, http.StatusServiceUnavailable, serve(adapter.Build(t, told), pay("7")).Code)
	assert.Len(t, logged.all(), 2, "the caller was told of a failure")
	var inHook error
	s.OnError = func(err error) { inHook = err }
	serve(adapter.Build(t, s), pay("7"))
	assert.Len(t, logged.all(), 2, "the error goes to OnError")
	var lost *guard.LostError
	if assert.ErrorAs(t, inHook, &lost) {
		assert.Equal(t, "order:7", lost.Key, "which may ask for the key")
	}
}

// Logged gives the errors that are logged while do runs. It belongs into a test that is not
// parallel.
func Logged(t *testing.T, do func()) (errs []string) {
	t.Helper()
	logged := listen(t)
	do()
	for _, r := range logged.all() {
		errs = append(errs, r.attrs["error"])
	}
	return errs
}

// ignore is an OnError of the program.
func ignore(error) {}

var (
	errOwn       = errors.New("own")
	longMetadata = guard.MetadataFunc(func(context.Context) string { return strings.Repeat("secret", 50) })
)

// record is what was logged.
type record struct {
	level slog.Level
	text  string
	attrs map[string]string
}

// listener is a slog.Handler that keeps what is logged.
type listener struct {
	mu      sync.Mutex
	records []record
}

func (l *listener) Enabled(context.Context, slog.Level) bool { return true }
func (l *listener) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *listener) WithGroup(string) slog.Handler            { return l }

func (l *listener) Handle(_ context.Context, r slog.Record) error {
	kept := record{r.Level, r.Message, map[string]string{}}
	r.Attrs(func(a slog.Attr) bool { kept.attrs[a.Key] = a.Value.String(); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, kept)
	return nil
}

func (l *listener) all() []record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]record(nil), l.records...)
}

// listen keeps what is logged by slog until t ends.
func listen(t *testing.T) *listener {
	t.Helper()
	before, writer, flags := slog.Default(), log.Writer(), log.Flags()
	l := &listener{}
	slog.SetDefault(slog.New(l))
	t.Cleanup(func() {
		slog.SetDefault(before)
		log.SetOutput(writer) // SetDefault took it, and does not give it back
		log.SetFlags(flags)
	})
	return l
}
