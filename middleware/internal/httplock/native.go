package httplock

import (
	"context"
	"net/http"
)

type nativeKey struct{}

// Request returns a copy of r with the context ctx, in which Native finds c, a framework's own context. It has no
// pattern: the adapter sets the pattern and the path values of the route, as http.ServeMux would.
func Request(ctx context.Context, r *http.Request, c any) *http.Request {
	r = r.WithContext(context.WithValue(ctx, nativeKey{}, c))
	r.Pattern = ""
	return r
}

// Native returns the C that Request was given, or the zero C.
func Native[C any](r *http.Request) C {
	c, _ := r.Context().Value(nativeKey{}).(C)
	return c
}

// KeyOf returns a key function of a C as one of a request. It returns nil for nil.
func KeyOf[C any](key func(C) (string, error)) func(*http.Request) (string, error) {
	if key == nil {
		return nil
	}
	return func(r *http.Request) (string, error) { return key(Native[C](r)) }
}

// Enter sets inner as the request of a framework's context, and returns what restores outer. Call it in a defer
// statement, as a handler may panic: outer layers must not see a context that has ended.
func Enter(outer, inner *http.Request, set func(*http.Request)) (leave func()) {
	set(inner)
	return func() {
		HandBack(outer, inner)
		set(outer)
	}
}

// HandBack copies to outer what inner layers left in inner, a shallow copy of it: the pattern, with which outer layers
// label telemetry, and the parsed form, because the server deletes temporary files only of the form in its own request.
func HandBack(outer, inner *http.Request) {
	if inner.Pattern != "" {
		outer.Pattern = inner.Pattern
	}
	if outer.MultipartForm == nil {
		outer.MultipartForm = inner.MultipartForm
	}
}
