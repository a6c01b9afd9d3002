package httplock

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the application answers in place of a Problem is not labelled as one.
func TestProblem_IsLabelledWhereItIsSent(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		sent      bool
		set, want string
	}{
		{true, "application/json; charset=UTF-8", "application/problem+json"},
		{true, "application/vnd.shop+json", "application/vnd.shop+json"},
		{false, "application/json", "application/json"},
	} {
		p, h := new(Draft), http.Header{"Content-Type": {"text/html"}}
		var before func()
		p.Prepare(h, func(f func()) { before = f })
		assert.Empty(t, h.Get("Content-Type"), "that of an answer that the handler began")
		if row.sent {
			_, err := json.Marshal(p)
			require.NoError(t, err)
		}
		h.Set("Content-Type", row.set)
		before()
		assert.Equal(t, row.want, h.Get("Content-Type"))
	}
}
