package echocore

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

const contentType = "Content-Type"

// Problem is the body of an answer that an error handler is yet to send, if it likes it.
// It is that of one request.
type Problem struct {
	outcome.Problem
	sent bool
}

// MarshalJSON makes echo send a Problem as it is, and notes that it is being sent.
func (p *Problem) MarshalJSON() ([]byte, error) {
	p.sent = true
	return json.Marshal(p.Problem)
}

// Prepare sets the headers that go with the Problem. before registers what runs just
// before they are sent: only then is it known whether the application, or middleware of
// its, answers something else, which must not be labelled as a problem.
func (p *Problem) Prepare(h http.Header, before func(func())) {
	p.SetHeader(h)
	h.Del(contentType) // of an answer that the handler began
	before(func() {
		if p.sent && strings.HasPrefix(h.Get(contentType), "application/json") {
			h.Set(contentType, outcome.ContentType)
		}
	})
}
