package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A grant that was abandoned before its work ended, as one that MaxHold ended, passes to nobody:
// those in the queue have claimed the key anew.
func TestEnded_AGrantThatWasAbandonedIsNotHandedOver(t *testing.T) {
	s := &store{acquire: mint}
	inBubble(t, s, func(b *bench) {
		first := b.has(b.comes())
		second := b.comes()
		b.waits(second)
		time.Sleep(time.Millisecond)
		first.Abandon(b.Context())
		got := b.has(second)
		third := b.comes()
		b.waits(third)
		require.NoError(b, b.ends(first))
		b.waits(third)
		_, releases := b.sent()
		assert.Len(b, releases, 1, "what may be left of it is given back")
		require.NoError(b, b.ends(got))
		require.NoError(b, b.ends(b.has(third)))
	})
}
