package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

// The scripts' replies are words (internal/docs/protocol.md). Any other reply is an error: the outcome is not known.

// ParseClaim reads the reply to a claim.
func ParseClaim(reply any) (guardstore.ClaimReply, error) {
	r, _, err := parseClaim(reply, nil)
	return r, err
}

// parseClaim returns the server's clock (µs), too, if the reply has it. A grant that too few replicas know of is none.
func parseClaim(reply any, err error) (r guardstore.ClaimReply, at uint64, _ error) {
	lag, lags := err.(redisconn.AckError) //nolint:errorlint // as redisconn made it
	if err != nil && !lags {
		return r, 0, classify(err)
	}
	text, _ := reply.(string)
	word, rest, _ := strings.Cut(text, " ")
	ok := false
	switch word {
	case "held":
		r, at, ok = parseHeld(rest)
	case "busy":
		r, ok = parseBusy(rest)
	case "ended":
		r.Status, ok = guardstore.ClaimFinished, rest == ""
	case "recorded":
		r, ok = parseRecorded(rest)
	}
	if !ok {
		return guardstore.ClaimReply{}, 0, unexpected(reply)
	}
	if lags && r.Status == guardstore.ClaimHeld {
		return guardstore.ClaimReply{}, at, lag
	}
	return r, at, nil
}

func parseHeld(rest string) (r guardstore.ClaimReply, at uint64, ok bool) {
	fence, rest, _ := strings.Cut(rest, " ")
	clocked, earlier, begun := strings.Cut(rest, " ")
	r.Fence, ok = parseWhole(fence)
	at, clockOK := parseWhole(clocked)
	if begun && ok {
		r.Earlier, ok = parseWhole(earlier)
	}
	r.Status, r.FenceAhead = guardstore.ClaimHeld, r.Fence > at
	return r, at, ok && clockOK && r.Fence > 0
}

func parseBusy(rest string) (guardstore.ClaimReply, bool) {
	words := strings.SplitN(rest, " ", 6)
	if len(words) != 6 {
		return guardstore.ClaimReply{}, false
	}
	remaining, err := strconv.ParseInt(words[0], 10, 54)
	place, ok1 := parseWhole(words[1])
	front, ok2 := parseWhole(words[2])
	limit, ok3 := parseWhole(words[3])
	if limit == 1 {
		limit = 0 // exclusive
	}
	return guardstore.ClaimReply{
		Status: guardstore.ClaimBusy, Remaining: parseRemaining(remaining), Holder: words[5],
		Ticket: place, Ahead: int(front), Done: words[4] == "1", Limit: guardstore.Limit(limit),
	}, err == nil && ok1 && ok2 && ok3 && (words[4] == "0" || words[4] == "1")
}

var releases = map[string]guardstore.ReleaseReply{
	"released": {Status: guardstore.ReleaseDone},
	"kept":     {Status: guardstore.ReleaseDone, HeldOver: true},
	"revoked":  {Status: guardstore.ReleaseRevoked},
	"lost":     {Status: guardstore.ReleaseLost},
}

func parseRelease(reply any, err error) (guardstore.ReleaseReply, error) {
	if err != nil {
		return guardstore.ReleaseReply{}, classify(err)
	}
	word, _ := reply.(string)
	r, known := releases[word]
	if !known {
		return guardstore.ReleaseReply{}, unexpected(reply)
	}
	return r, nil
}

// parseRenewed returns the server's clock (µs), too, if the hold was renewed.
func parseRenewed(reply any, err error) (r guardstore.RenewReply, at uint64) {
	if err != nil {
		return guardstore.RenewReply{Err: classify(err)}, 0
	}
	text, _ := reply.(string)
	word, rest, _ := strings.Cut(text, " ")
	switch {
	case word == "held":
		if at, r.Held = parseWhole(rest); r.Held {
			return r, at
		}
	case text == "revoked":
		return guardstore.RenewReply{Revoked: true}, 0
	case text == "lost":
		return guardstore.RenewReply{}, 0
	}
	return guardstore.RenewReply{Err: unexpected(reply)}, 0
}

// ParseHeld reads a reply that says whether the owner holds the lock.
func ParseHeld(reply any) (bool, error) {
	switch reply {
	case "held":
		return true, nil
	case "lost":
		return false, nil
	}
	return false, unexpected(reply)
}

// parseRemaining reads a remaining ttl. A key without a ttl stays until it is deleted.
func parseRemaining(ms int64) time.Duration {
	if ms < 0 {
		return clock.Forever
	}
	return time.Duration(ms) * time.Millisecond
}

// parseWhole reads a number of a script: below 2^53, as Lua's numbers are doubles.
func parseWhole(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 53)
	return n, err == nil
}

func unexpected(reply any) error { return fmt.Errorf("unexpected reply of type %T", reply) }
