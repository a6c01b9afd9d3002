package outcome

import (
	"net/http"
	"strconv"
	"time"
)

// ContentType is the media type of a Problem.
const ContentType = "application/problem+json"

// typeBase makes a code a URI of its own that opens the page on which codes are listed.
const typeBase = "https://pkg.go.dev/github.com/redlatch/redlatch/middleware/nethttp#"

// ofAnotherAnswer are headers that say something about another answer than a Problem.
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
	RetryAfter int    `json:"retry_after,omitempty"` // seconds, as in the header
}

// String is the title: it is what a framework's log shows of a Problem.
func (p Problem) String() string { return p.Title }

// Problem gives the body of the answer.
func (o Outcome) Problem() Problem {
	p := Problem{
		Type: "about:blank", Title: o.title, Status: o.Status,
		Detail: o.detail, Code: o.Code, RetryAfter: wholeSeconds(o.RetryAfter),
	}
	if o.Code != "" {
		p.Type = typeBase + o.Code
	}
	if p.Title == "" {
		p.Title = http.StatusText(o.Status)
	}
	return p
}

// SetHeader sets the headers that go with the answer, but for the type of its body.
func (p Problem) SetHeader(h http.Header) {
	h.Set("Cache-Control", "no-store")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	// A handler may have begun to describe an answer that will not come.
	for _, name := range ofAnotherAnswer {
		h.Del(name)
	}
}

func wholeSeconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}
