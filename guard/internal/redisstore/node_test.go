package redisstore

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// A server of a quorum that refuses has answered: it is not asked again. One that is not ready
// has not.
func TestWhatAServerOfAQuorumRefuses(t *testing.T) {
	for text, refused := range map[replyError]bool{
		"NOPERM this user has no permissions": true,
		"WRONGTYPE Operation against a key":   true,
		"LOADING Redis is loading":            false,
		"READONLY You can't write":            false,
	} {
		s := &Store{conn: &fixedConn{refusal: text}, prefix: "guard"}
		c := guardstore.Claim{Key: "k", Owner: "o"}
		_, peeked := s.Peek(t.Context(), c)
		_, raised := s.RaiseFence(t.Context(), c, 1)
		for name, err := range map[string]error{
			"peek": peeked, "notify": s.Notify(t.Context(), "k", "o"), "raise": raised, "rollback": s.Rollback(t.Context(), c, true),
		} {
			var refusal *guardstore.RefusedError
			assert.Equal(t, refused, errors.As(err, &refusal), "%s: %s", name, text)
			assert.Equal(t, refused, Answered(err), "%s: %s", name, text)
		}
	}
}
