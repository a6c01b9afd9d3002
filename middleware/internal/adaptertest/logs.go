package adaptertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// logs checks that faults of the program are logged, and nothing else.
func logs(t *testing.T, build Build) {
	for name, row := range map[string]struct {
		given given
		fault string // "" for no fault of the program
	}{
		"no guard":                       {unguarded, "no Guard"},
		"template does not fit":          {template("order:{order}"), "key template does not fit the route"},
		"own key function":               {keyed(errOwn, false), "key function"},
		"own key function that panics":   {keyed(errOwn, true), "key function"},
		"own metadata too long":          {func(c *circumstances) { c.s.Guard = guardtest.NewMemoryGuard(c.t, longMetadata) }, "option"},
		"own key function with a status": {keyed(statusError{}, false), ""},
		"the program's own OnError":      {func(c *circumstances) { c.s.Guard, c.s.OnError = nil, ignore }, ""},
		"busy":                           {held(guard.NoWait()), ""},
		"lost":                           {lose, ""},
		"an own error":                   {func(c *circumstances) { c.s.Fail = errOwn }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBench(t)
			s := Setup{Guard: b.Guard, Template: "order:{id}", Work: func(http.ResponseWriter, *http.Request) {}}
			row.given(&circumstances{t, b, &s, nil})
			h := build(t, s)
			ask := func(method string) []record {
				return listen(t, func() {
					for range 3 {
						r := pay("7")
						r.Method = method
						serve(h, r)
					}
				})
			}
			records := ask(http.MethodPost)
			if row.fault == "" {
				assert.Empty(t, records)
				return
			}
			require.Len(t, records, 1, "once for each route")
			assert.Contains(t, records[0].Msg, "the program is at fault")
			assert.Equal(t, row.fault, records[0].Fault)
			records[0].check(t)
			assert.Len(t, ask(http.MethodHead), 1, "it is another route")
		})
	}
}

// logsLoss checks that each loss is logged that came too late to be answered.
func logsLoss(t *testing.T, build Build) {
	b := NewBench(t)
	s := Setup{Guard: b.Guard, Template: "order:{id}", Work: func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun")
		b.Lose(r.Context(), "order:7")
	}}
	ask := func(s Setup) []record { return listen(t, func() { serve(build(t, s), pay("7")) }) }
	records := ask(s)
	require.Len(t, records, 1)
	assert.Contains(t, records[0].Msg, "the lock was lost after the answer had begun")
	records[0].check(t)

	told := s
	told.Work = func(w http.ResponseWriter, r *http.Request) {
		b.Lose(r.Context(), "order:7")
		http.Error(w, "own", http.StatusServiceUnavailable)
	}
	assert.Empty(t, ask(told), "the caller was told of a failure")
	var lost *guard.LostError
	s.OnError = func(err error) { assert.ErrorAs(t, err, &lost) }
	assert.Empty(t, ask(s), "the error goes to OnError")
	assert.Equal(t, "order:7", lost.Key, "which may ask for the key")
}

// Logged returns the errors that are logged while do runs. It belongs into a test that is not parallel.
func Logged(t *testing.T, do func()) (errs []string) {
	t.Helper()
	for _, r := range listen(t, do) {
		errs = append(errs, r.text())
	}
	return errs
}

// ignore is an OnError of the program.
func ignore(error) {}

var (
	errOwn       = errors.New("own")
	longMetadata = guard.MetadataFunc(func(context.Context) string { return strings.Repeat("secret", 50) })
)

// record is a line of the log.
type record struct {
	Level, Msg, Route, Fault string
	Error                    any
}

// text returns the text of the error, which guard's errors have beside their type.
func (r record) text() string {
	if parts, ok := r.Error.(map[string]any); ok {
		return fmt.Sprint(parts["msg"])
	}
	return fmt.Sprint(r.Error)
}

func (r record) check(t *testing.T) {
	t.Helper()
	assert.Equal(t, "ERROR", r.Level)
	assert.Contains(t, r.Route, "POST /orders/")
	assert.Contains(t, r.text(), "guard: ")
	assert.NotContains(t, r.text(), "secret")
	assert.NotContains(t, r.text(), "order:7")
}

// listen returns what slog logs while do runs.
func listen(t *testing.T, do func()) (records []record) {
	t.Helper()
	var text bytes.Buffer
	before, writer, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(slog.NewJSONHandler(&text, nil)))
	do()
	slog.SetDefault(before)
	log.SetOutput(writer) // SetDefault took it, and does not give it back
	log.SetFlags(flags)
	for lines := json.NewDecoder(&text); lines.More(); {
		var r record
		require.NoError(t, lines.Decode(&r))
		records = append(records, r)
	}
	return records
}
