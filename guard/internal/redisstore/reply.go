package redisstore

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

// The scripts' replies, as their headers describe them. What does not fit is an error:
// an outcome that is not known.

func parseClaimReply(reply any) (guardstore.ClaimReply, error) {
	if fence, ok := reply.(redisconn.BatchReply); ok && fence > 0 {
		return guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: uint64(fence)}, nil
	} else if ok && fence < -1 {
		return guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: uint64(-fence), FenceAhead: true}, nil
	}
	list, _ := reply.([]any)
	switch {
	case reply == redisconn.BatchReply(0):
		return guardstore.ClaimReply{Status: guardstore.ClaimFinished}, nil
	case len(list) == 1 && list[0] == int64(-1):
		return guardstore.ClaimReply{Status: guardstore.ClaimFinished}, nil
	case len(list) > 1 && list[0] == int64(1):
		if held, ok := parseClaimHeld(list[1:]); ok {
			return held, nil
		}
	case (len(list) == 5 || len(list) == 6) && list[0] == int64(0):
		remaining, ok1 := list[1].(int64)
		holder, ok2 := list[2].(string)
		place, ok3 := parseWhole(list[3])
		front, ok4 := list[4].(int64)
		limit, ok5 := int64(0), true
		if len(list) == 6 { // those inside tolerate others
			limit, ok5 = list[5].(int64)
		}
		if ok1 && ok2 && ok3 && ok4 && ok5 {
			return guardstore.ClaimReply{
				Status: guardstore.ClaimBusy, Remaining: parseRemaining(remaining),
				Holder: holder, Ticket: place, Ahead: int(front), Done: limit < 0, Limit: guardstore.Limit(max(limit, 0)),
			}, nil
		}
	}
	return guardstore.ClaimReply{}, unexpected(reply)
}

func parseReleaseReply(reply any) (guardstore.ReleaseReply, error) {
	if reply == redisconn.BatchReply(1) {
		return guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, nil
	}
	list, _ := reply.([]any)
	if len(list) == 2 && list[0] == int64(4) {
		if _, ok := list[1].(int64); ok {
			return guardstore.ReleaseReply{Status: guardstore.ReleaseDone, HeldOver: true}, nil
		}
	}
	if len(list) == 1 {
		switch list[0] {
		case int64(0):
			return guardstore.ReleaseReply{Status: guardstore.ReleaseLost}, nil
		case int64(1):
			return guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, nil
		case int64(2):
			return guardstore.ReleaseReply{Status: guardstore.ReleaseAlready}, nil
		case int64(3):
			return guardstore.ReleaseReply{Status: guardstore.ReleaseRevoked}, nil
		}
	}
	return guardstore.ReleaseReply{}, unexpected(reply)
}

// parseClaimHeld reads the fence of a claim that holds, and whether it is ahead of the clock.
func parseClaimHeld(words []any) (guardstore.ClaimReply, bool) {
	fence, ok := parseWhole(words[0])
	ahead := len(words) == 2 && words[1] == int64(1)
	held := guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: fence, FenceAhead: ahead}
	return held, ok && fence > 0 && (ahead || len(words) == 1)
}

// parseRemaining reads what is left of a ttl. What has none stays until somebody deletes it.
func parseRemaining(ms int64) time.Duration {
	if ms < 0 {
		return clock.Forever
	}
	return time.Duration(ms) * time.Millisecond
}

func parseHeld(reply any) (bool, error) {
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
	held, err := parseHeld(reply)
	return guardstore.RenewReply{Held: held, Err: err}
}

// replyRevoked is what the scripts say of a hold that somebody revoked.
const replyRevoked int64 = 2

// parseWhole reads a number that a script sent as text, as Lua's numbers are doubles:
// below 2^53.
func parseWhole(v any) (uint64, bool) {
	text, _ := v.(string)
	n, err := strconv.ParseUint(text, 10, 53)
	return n, err == nil
}

func unexpected(reply any) error { return fmt.Errorf("unexpected reply of type %T", reply) }

func parseView(reply any) (View, error) {
	list, _ := reply.([]any)
	switch {
	case len(list) == 1 && list[0] == int64(-1):
		return View{Finished: true}, nil
	case len(list) == 4, len(list) == 5:
		remaining, ok1 := list[0].(int64)
		holder, ok2 := list[1].(string)
		place, ok3 := parseWhole(list[2])
		front, ok4 := list[3].(int64)
		if ok1 && ok2 && ok3 && ok4 {
			return View{Remaining: parseRemaining(remaining), Holder: holder, Ticket: place, Ahead: int(front), Done: len(list) == 5}, nil
		}
	}
	return View{}, unexpected(reply)
}
