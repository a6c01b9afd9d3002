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

// The scripts' replies, as their headers describe them. What does not fit is an error:
// an outcome that is not known.

// parseOnceReply is ParseClaim for a claim that asks for a record.
func parseOnceReply(reply any) (guardstore.ClaimReply, error) {
	if list, _ := reply.([]any); len(list) == 2 {
		return parseBegun(list)
	} else if len(list) == 5 {
		return parseRecorded(list)
	}
	r, err := ParseClaim(reply)
	if r.Status == guardstore.ClaimHeld {
		return guardstore.ClaimReply{}, unexpected(reply)
	}
	return r, err
}

// ParseClaim reads the reply to a claim that asks for no record.
func ParseClaim(reply any) (guardstore.ClaimReply, error) {
	switch r := reply.(type) {
	case redisconn.BatchReply:
		if r > 0 {
			return guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: uint64(r)}, nil
		}
	case int64:
		if r == 0 {
			return guardstore.ClaimReply{Status: guardstore.ClaimFinished}, nil
		}
	case string:
		text, ahead := strings.CutPrefix(r, "-")
		if fence, ok := parseWhole(text); ok && fence > 0 {
			return guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: fence, FenceAhead: ahead}, nil
		}
	case []any:
		return parseBusy(r)
	}
	return guardstore.ClaimReply{}, unexpected(reply)
}

func parseBusy(list []any) (guardstore.ClaimReply, error) {
	if len(list) == 6 {
		remaining, ok1 := list[0].(int64)
		holder, ok2 := list[1].(string)
		place, ok3 := parseWhole(list[2])
		front, ok4 := list[3].(int64)
		limit, ok5 := list[4].(int64)
		done, ok6 := list[5].(int64)
		if ok1 && ok2 && ok3 && ok4 && ok5 && ok6 {
			if limit == 1 {
				limit = 0 // exclusive
			}
			return guardstore.ClaimReply{
				Status: guardstore.ClaimBusy, Remaining: parseRemaining(remaining),
				Holder: holder, Ticket: place, Ahead: int(front), Done: done == 1, Limit: guardstore.Limit(limit),
			}, nil
		}
	}
	return guardstore.ClaimReply{}, unexpected(list)
}

func parseReleaseReply(reply any) (guardstore.ReleaseReply, error) {
	if reply == redisconn.BatchReply(1) {
		reply = int64(1)
	}
	switch reply {
	case int64(0):
		return guardstore.ReleaseReply{Status: guardstore.ReleaseLost}, nil
	case int64(1):
		return guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, nil
	case int64(2):
		return guardstore.ReleaseReply{Status: guardstore.ReleaseAlready}, nil
	case int64(3):
		return guardstore.ReleaseReply{Status: guardstore.ReleaseRevoked}, nil
	case int64(4):
		return guardstore.ReleaseReply{Status: guardstore.ReleaseDone, HeldOver: true}, nil
	}
	return guardstore.ReleaseReply{}, unexpected(reply)
}

// parseRemaining reads what is left of a ttl. A key without one stays until it is deleted.
func parseRemaining(ms int64) time.Duration {
	if ms < 0 {
		return clock.Forever
	}
	return time.Duration(ms) * time.Millisecond
}

// ParseHeld reads a reply that is 1 if the owner holds the lock, and 0 if it does not.
func ParseHeld(reply any) (bool, error) {
	switch reply {
	case int64(1):
		return true, nil
	case int64(0):
		return false, nil
	}
	return false, unexpected(reply)
}

func parseRenewed(reply any) guardstore.RenewReply {
	if reply == replyRevoked {
		return guardstore.RenewReply{Revoked: true}
	}
	held, err := ParseHeld(reply)
	return guardstore.RenewReply{Held: held, Err: err}
}

// replyRevoked is what the scripts say of a hold that was revoked.
const replyRevoked int64 = 2

// parseWhole reads a number that a script sent as text, as Lua's numbers are doubles:
// below 2^53.
func parseWhole(v any) (uint64, bool) {
	text, _ := v.(string)
	n, err := strconv.ParseUint(text, 10, 53)
	return n, err == nil
}

func unexpected(reply any) error { return fmt.Errorf("unexpected reply of type %T", reply) }
