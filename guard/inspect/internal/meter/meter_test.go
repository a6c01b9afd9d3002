package meter_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/inspect/internal/meter"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestNote_CountsWhatRedisAnswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err     error
		answers int
	}{
		"an answer":  {nil, 1},
		"a refusal":  {fmt.Errorf("scan: %w", redistest.ReplyError("NOPERM")), 1},
		"no answer":  {context.DeadlineExceeded, 0},
		"no key":     {redis.Nil, 1},
		"it is over": {redis.ErrClosed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var took []time.Duration
				ctx := meter.With(t.Context(), func(d time.Duration) { took = append(took, d) })
				begun := time.Now()
				time.Sleep(time.Second)
				meter.Note(ctx, begun, c.err)
				meter.Note(t.Context(), begun, c.err) // nobody wants to know
				assert.Len(t, took, c.answers)
				for _, d := range took {
					assert.Equal(t, time.Second, d)
				}
			})
		})
	}
}
