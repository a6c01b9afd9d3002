package redisstore

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/internal/redistest"
)

// A server that refuses the command of another package has answered: it is not asked again. One
// that is not ready has not.
func TestDo_WhatAServerRefuses(t *testing.T) {
	for text, refused := range map[redistest.ReplyError]bool{
		"NOPERM this user has no permissions": true,
		"WRONGTYPE Operation against a key":   true,
		"LOADING Redis is loading":            false,
		"READONLY You can't write":            false,
	} {
		s := &Store{conn: &fixedConn{refusal: text}, prefix: "redlatch"}
		_, did := s.Do(t.Context(), forgetScript.With([]string{"k"}))
		_, called := s.Call(t.Context(), "info", "server")
		for name, err := range map[string]error{"script": did, "call": called} {
			var refusal *guardstore.RefusedError
			assert.Equal(t, refused, errors.As(err, &refusal), "%s: %s", name, text)
			assert.Equal(t, refused, Answered(err), "%s: %s", name, text)
		}
	}
}
