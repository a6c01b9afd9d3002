package httplock

import (
	"mime/multipart"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Outer layers get their request back, with what they read of it later.
func TestEnter_RestoresTheOuterRequest(t *testing.T) {
	t.Parallel()
	var current *http.Request
	outer, inner := &http.Request{}, &http.Request{Pattern: "GET /", MultipartForm: new(multipart.Form)}
	leave := Enter(outer, inner, func(r *http.Request) { current = r })
	assert.Same(t, inner, current)
	assert.Empty(t, Request(t.Context(), inner, nil).Pattern, "an adapter sets that of its own route")
	leave()
	HandBack(outer, &http.Request{}) // of a layer that learned less
	assert.Same(t, outer, current)
	assert.Equal(t, "GET /", outer.Pattern)
	assert.Same(t, inner.MultipartForm, outer.MultipartForm)
}
