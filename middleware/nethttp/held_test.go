package guardhttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardtest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// Informational answers reach the client while the handler still works.
func TestHeld_EarlyHintsAreNotHeldBack(t *testing.T) {
	t.Parallel()
	hinted := make(chan int)
	g := guardtest.NewGuard(t)
	srv := httptest.NewServer(guardhttp.Middleware(g, guardhttp.Lock("k"))(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			assert.Equal(t, http.StatusEarlyHints, <-hinted)
			w.WriteHeader(http.StatusNoContent)
		})))
	defer srv.Close()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { hinted <- code; return nil },
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	assert.Equal(t, http.StatusNoContent, res.StatusCode)
}

// Trailers are set behind the status.
func TestHeld_TrailersAreNotHeldBackWithTheStatus(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	srv := httptest.NewServer(guardhttp.Middleware(g, guardhttp.Lock("k"))(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			w.WriteHeader(http.StatusOK)
			w.Header().Set("X-Sum", "7")
			_, _ = io.WriteString(w, "body")
		})))
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(srv.URL)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	_, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, http.Header{"X-Sum": {"7"}}, res.Trailer)
	assert.Empty(t, res.Header.Get("X-Sum"))
}
