package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// recordKey returns the key of the record of a lock.
func (s *Store) recordKey(key string) string { return RecordKey(s.prefix, key) }

// The words of the scripts for the states of a record.
var (
	stateWords = map[guardstore.RecordState]string{
		guardstore.RecordNone: "failed", guardstore.RecordBegun: "begun", guardstore.RecordDone: "done",
		guardstore.RecordNotKept: "unkept", guardstore.RecordDamaged: "damaged",
	}
	states = map[string]guardstore.RecordState{
		"begun": guardstore.RecordBegun, "done": guardstore.RecordDone, "unkept": guardstore.RecordNotKept,
		"damaged": guardstore.RecordDamaged, "other": guardstore.RecordOtherInput,
	}
)

// onceArgs are the arguments that acquire and release have in common.
func onceArgs(words []string, o *guardstore.Once) []string {
	fingerprint, atMostOnce := o.Fingerprint, "0"
	if fingerprint == "" {
		fingerprint = "-"
	}
	if o.AtMostOnce {
		atMostOnce = "1"
	}
	return append(words, fingerprint, millis(o.Keep), atMostOnce)
}

// Recorded implements guardstore.Recorder.
func (s *Store) Recorded(ctx context.Context, key string) (guardstore.RecordID, error) {
	reply, err := s.forget(ctx, key)
	if err != nil || reply == int64(0) {
		return guardstore.RecordID{}, err
	}
	if list, _ := reply.([]any); len(list) == 2 {
		word, _ := list[0].(string)
		number, _ := list[1].(string)
		fence, ok := parseWhole(number)
		if state := states[word]; ok && state != guardstore.RecordNone {
			return guardstore.RecordID{State: state, Fence: fence}, nil
		}
	}
	return guardstore.RecordID{}, unexpected(reply)
}

// Forget implements guardstore.Recorder.
func (s *Store) Forget(ctx context.Context, f guardstore.Forget) (guardstore.ForgetStatus, error) {
	reply, err := s.forget(ctx, f.Key, stateWords[f.State], strconv.FormatUint(f.Fence, 10))
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

func (s *Store) forget(ctx context.Context, key string, record ...string) (any, error) {
	return s.Do(ctx, forgetScript.With([]string{LockKey(s.prefix, key), s.recordKey(key)}, record...))
}

// parseRecorded reads the reply to a claim whose work was recorded before.
func parseRecorded(text string) (guardstore.ClaimReply, bool) {
	words := strings.SplitN(text, " ", 5)
	if len(words) != 5 {
		return guardstore.ClaimReply{}, false
	}
	state, rest := states[words[0]], words[4]
	fence, ok1 := parseWhole(words[1])
	age, ok2 := parseWhole(words[2])
	length, ok3 := parseWhole(words[3])
	if !ok1 || !ok2 || !ok3 || state == guardstore.RecordNone || length > uint64(len(rest)) {
		return guardstore.ClaimReply{}, false
	}
	r := &guardstore.Record{State: state, Fence: fence, Age: time.Duration(age) * time.Microsecond, Holder: rest[:length]}
	if state == guardstore.RecordDone {
		r.Result = []byte(rest[length:])
	}
	return guardstore.ClaimReply{Status: guardstore.ClaimRecorded, Record: r}, true
}
