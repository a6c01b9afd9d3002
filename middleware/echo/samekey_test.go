package guardecho_test

import (
	"net/http"
	"testing"

	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// FuzzSameKeyAsNetHTTP checks that a URL which both adapters lock gets one key from both.
func FuzzSameKeyAsNetHTTP(f *testing.F) {
	for _, id := range []string{"7", "%37", "%61", "a%2Fb", "100%25", "%2541", "%2541%2F", "a%20b", "a+b", "a:b", "%3A", "{id}", "%FF", "..", ".", "a;b", "%00"} {
		f.Add(id)
	}
	inEcho, inMux := adaptertest.KeyServer(f, build), adaptertest.KeyServer(f, buildNetHTTP)
	f.Fuzz(func(t *testing.T, id string) {
		ours, ok := adaptertest.Key(inEcho, id)
		theirs, also := adaptertest.Key(inMux, id)
		// ServeMux redirects what is not clean, and echo splits at other places.
		if ok && also && ours != theirs {
			t.Fatalf("%q: echo locks %q, net/http %q", id, ours, theirs)
		}
	})
}

func buildNetHTTP(_ testing.TB, s adaptertest.Setup) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guardhttp.Middleware(s.Guard, guardhttp.Key(s.Template))(s.Work))
	return mux
}
