package answer

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func newCapture() (*Answer, *full) {
	to := newFull()
	a := New(context.Background(), to)
	a.Capture()
	return a, to
}

// What is captured reaches the client when it ends, as the handler began it.
func TestCapture_TheFirstStatusAndItsHeadersCount(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(a *Answer){
		"a status":      func(a *Answer) { a.WriteHeader(http.StatusOK) },
		"a first write": func(a *Answer) { _, _ = a.WriteString("a") },
	} {
		a, to := newCapture()
		a.Header().Set("Location", "/1")
		begin(a)
		a.Header().Set("Location", "/2")
		a.WriteHeader(http.StatusTeapot)
		_, _ = a.Write([]byte("b"))
		assert.Empty(t, to.Body, name)
		kept, ok := a.Keep()
		assert.True(t, ok && kept.whole, name)
		assert.NoError(t, a.Finish(nil))
		assert.Equal(t, http.StatusOK, to.Code, name)
		assert.Equal(t, http.StatusOK, kept.Status, name)
		assert.Equal(t, []string{"/1"}, kept.Header["Location"], name)
		assert.Equal(t, to.Body.String(), string(kept.body), name)
	}
}

// A body that comes from a reader does not go past the capture.
func TestCapture_WhatIsCopiedIsKept(t *testing.T) {
	t.Parallel()
	a, to := newCapture()
	_, err := a.Writer().(io.ReaderFrom).ReadFrom(strings.NewReader("copied"))
	assert.NoError(t, err)
	assert.Empty(t, to.did)
	kept, ok := a.Keep()
	assert.True(t, ok && kept.whole)
	assert.Equal(t, "copied", string(kept.body))
}

// What is too long, or was flushed, goes out at once, and no part of it is taken for the whole.
func TestCapture_WhatCannotBeKeptIsSentAsItComes(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(a *Answer){
		"too long": func(a *Answer) { _, _ = a.Write(make([]byte, MaxBody+1)) },
		"flushed": func(a *Answer) {
			_, _ = a.WriteString("a")
			assert.NoError(t, a.FlushBy(func() error { return nil }))
		},
	} {
		a, to := newCapture()
		answer(a)
		assert.NotEmpty(t, to.Body.String(), name)
		kept, ok := a.Keep()
		assert.True(t, ok, name)
		assert.False(t, kept.whole, name)
	}
}
