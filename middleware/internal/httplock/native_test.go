package httplock

import (
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A function of a framework's context gets the one of its request; the request has the pattern that the adapter sets.
func TestNative_TravelsInTheRequest(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Pattern = "/of/another/router"
	inner := Request(t.Context(), r, "native")
	assert.Empty(t, inner.Pattern)
	key, err := KeyOf(func(c string) (string, error) { return c, nil })(inner)
	require.NoError(t, err)
	assert.Equal(t, "native", key)
	assert.Empty(t, Native[string](r))
	assert.Nil(t, KeyOf[string](nil))
}

// Outer layers get their request back, with what they read of it later.
func TestEnter_RestoresTheOuterRequest(t *testing.T) {
	t.Parallel()
	var current *http.Request
	outer, inner := &http.Request{}, &http.Request{Pattern: "GET /", MultipartForm: new(multipart.Form)}
	leave := Enter(outer, inner, func(r *http.Request) { current = r })
	assert.Same(t, inner, current)
	leave()
	HandBack(outer, &http.Request{}) // of a layer that learned less
	assert.Same(t, outer, current)
	assert.Equal(t, "GET /", outer.Pattern)
	assert.Same(t, inner.MultipartForm, outer.MultipartForm)
}
