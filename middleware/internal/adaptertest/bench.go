package adaptertest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// Bench shows what the middleware costs a request whose lock is free: the difference to "by hand".
func Bench(b *testing.B, adapter Adapter) {
	g := guardtest.NewMemoryGuard(b)
	work := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	byHand := func(w http.ResponseWriter, r *http.Request) {
		err := g.WithLock(r.Context(), guard.Key("order:"+guard.JoinKey("7")), func(context.Context) error { work(w, r); return nil })
		if err != nil {
			b.Error(err)
		}
	}
	for name, s := range map[string]Setup{"by hand": {Unguarded: true, Work: byHand}, "Middleware": {Work: work}, "Annotate": {Work: work, Table: true}} {
		s.Guard, s.Template = g, "order:{id}"
		h := adapter.Build(b, s)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r, rec := pay("7"), httptest.NewRecorder()
			for b.Loop() {
				h.ServeHTTP(rec, r)
			}
		})
	}
}
