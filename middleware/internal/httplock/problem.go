package httplock

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

const (
	contentType = "Content-Type"
	problemType = "application/problem+json"
)

// ofAnotherAnswer are headers that do not describe a Problem.
var ofAnotherAnswer = []string{
	"Content-Length", "Content-Range", "Content-Disposition", "Content-Language", "Content-Location",
	"Etag", "Last-Modified", "Location",
}

// Problem is an RFC 9457 problem details object.
type Problem struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail,omitempty"`
	Code       string `json:"code,omitempty"`
	RetryAfter int    `json:"retry_after,omitempty"` // seconds, as in the header; 0 for none
}

// SetHeader sets the headers of the answer, except the type of its body.
func (p Problem) SetHeader(h http.Header) {
	h.Set("Cache-Control", "no-store")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	// The handler may have begun to describe another answer.
	for _, name := range ofAnotherAnswer {
		h.Del(name)
	}
}

// Write answers a request of method.
func (p Problem) Write(w http.ResponseWriter, method string) {
	if p.Status == StatusClientClosed {
		w.WriteHeader(StatusClientClosed)
		return
	}
	p.SetHeader(w.Header())
	w.Header().Set(contentType, problemType)
	w.WriteHeader(p.Status)
	if method != http.MethodHead {
		_ = json.NewEncoder(w).Encode(p) // the client may be gone
	}
}

// Draft is the Problem in an error that echo's error handler sends, unless the application answers something else. It
// belongs to one request.
type Draft struct {
	Problem
	sent bool
}

// String returns the title, for echo's log.
func (p *Draft) String() string { return p.Title }

// MarshalJSON encodes the Problem, and notes that it is being sent.
func (p *Draft) MarshalJSON() ([]byte, error) {
	p.sent = true
	return json.Marshal(p.Problem)
}

// Prepare sets the headers of the Draft. before registers a function that runs just before they are sent: only then is
// it known whether the Draft is the answer. Another answer must not have the type of a problem.
func (p *Draft) Prepare(h http.Header, before func(func())) {
	p.SetHeader(h)
	h.Del(contentType) // of an answer that the handler began
	before(func() {
		if p.sent && strings.HasPrefix(h.Get(contentType), "application/json") {
			h.Set(contentType, problemType)
		}
	})
}
