package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/rediskey"
)

// recordKey is where the record of a lock is.
func (s *Store) recordKey(key string) string { return rediskey.Record(s.prefix, key) }

// outcomes are the words that release knows.
var outcomes = map[guardstore.RecordState]string{
	guardstore.RecordDone: "done", guardstore.RecordNotKept: "unkept", 0: "failed",
}

// onceArgs are the arguments that acquire and release have in common.
func onceArgs(words []any, o *guardstore.Once) []any {
	fingerprint := o.Fingerprint
	if fingerprint == "" {
		fingerprint = "-"
	}
	return append(words, fingerprint, o.Keep.Milliseconds(), digit(o.AtMostOnce))
}

// Forget implements guardstore.Recorder.
func (s *Store) Forget(ctx context.Context, key string) (guardstore.ForgetStatus, error) {
	reply, err := s.Do(ctx, forgetScript.With([]string{s.lockKey(key), s.recordKey(key)}))
	if err != nil {
		return 0, err
	}
	switch reply {
	case int64(0):
		return guardstore.ForgetNone, nil
	case int64(1):
		return guardstore.ForgetDone, nil
	case int64(2):
		return guardstore.ForgetBusy, nil
	}
	return 0, unexpected(reply)
}

// parseBegun reads the reply to a claim with a record that holds the lock.
func parseBegun(list []any) (guardstore.ClaimReply, error) {
	earlier, ok := parseWhole(list[1])
	r, err := ParseClaim(list[0])
	if err != nil || !ok || r.Status != guardstore.ClaimHeld {
		return guardstore.ClaimReply{}, unexpected(list)
	}
	r.Earlier = earlier
	return r, nil
}

// parseRecorded reads the reply to a claim whose record says that there is nothing to run.
func parseRecorded(list []any) (guardstore.ClaimReply, error) {
	state, _ := list[0].(string)
	fence, ok1 := parseWhole(list[1])
	age, ok2 := parseWhole(list[2])
	rest, ok3 := list[3].(string)
	if !ok1 || !ok2 || !ok3 {
		return guardstore.ClaimReply{}, unexpected(list)
	}
	r := &guardstore.Record{Fence: fence, Age: time.Duration(age) * time.Microsecond} //nolint:gosec // below 2^53
	known := true
	switch state {
	case "other":
		r.State = guardstore.RecordOtherInput
	case "begun":
		r.State = guardstore.RecordBegun
		r.Holder, _, known = CutRecord(rest)
	case "unkept":
		r.State = guardstore.RecordNotKept
		r.Holder, _, known = CutRecord(rest)
	case "done":
		var result string
		r.State = guardstore.RecordDone
		r.Holder, result, known = CutRecord(rest)
		r.Result = []byte(result)
	default:
		known = false
	}
	if !known {
		return guardstore.ClaimReply{}, unexpected(list)
	}
	return guardstore.ClaimReply{Status: guardstore.ClaimRecorded, Record: r}, nil
}

// CutRecord parts the end of a record: the length of its metadata, the metadata, the result.
func CutRecord(rest string) (metadata, result string, ok bool) {
	length, text, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n > len(text) {
		return "", "", false
	}
	return text[:n], text[n:], true
}
