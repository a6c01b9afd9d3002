package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/guard/internal/redisstore"
)

// Record is what guard.Once wrote of the work of a key. It is never shown what the result is.
type Record struct {
	State    RecordState
	Instance string        // that began the work: its name, or the first 8 digits of its id; "" if Redis does not know it any more
	Metadata string        // what it said of itself
	Since    time.Time     // when the record came into this state, by the server's clock
	Left     time.Duration // until the record is forgotten; 0 without an end
	Fence    uint64        // under which the work began
	Size     int           // of the result, in bytes
}

// RecordState says how far the work of a record came.
type RecordState string

// The states of a record.
const (
	// RecordInProgress: its owner holds the key. An owner that crashed does until its lease ends.
	RecordInProgress RecordState = "in progress"
	// RecordUnfinished: the work began, and its owner does not hold the key any more. It is not known
	// whether it had an effect.
	RecordUnfinished RecordState = "unfinished"
	// RecordDone: the work is done, and there is a result.
	RecordDone RecordState = "done"
	// RecordNotKept: the work is done, and its result was too large to be kept.
	RecordNotKept RecordState = "not kept"
)

// states are the words of acquire.lua.
var states = map[string]RecordState{"begun": RecordUnfinished, "done": RecordDone, "unkept": RecordNotKept}

// forgotten stands for the owner of work that never finished, once later work of the key has failed.
const forgotten = "-"

// parseRecord reads what look replies of a record.
func parseRecord(key string, reply any) (*Record, error) {
	list, _ := reply.([]any)
	if len(list) == 0 {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	strange := &FormatError{Key: key, Reason: "its record was not written by a Guard"}
	if len(list) != 8 {
		return nil, strange
	}
	word, _ := list[0].(string)
	owner, _ := list[2].(string)
	instance, known := instanceOf(owner)
	r := &Record{State: states[word], Instance: instance, Fence: whole(list[1]), Since: micros(whole(list[3]))}
	if r.State == "" || r.Fence == 0 || !known && owner != forgotten {
		return nil, strange
	}
	if list[7] == int64(1) {
		r.State = RecordInProgress
	}
	r.Metadata, _ = list[4].(string)
	size, _ := list[5].(int64)
	left, _ := list[6].(int64)
	r.Size, r.Left = int(size), max(time.Duration(left)*time.Millisecond, 0)
	return r, nil
}

// Forget deletes the record that a key has now, for an operator that knows what became of the work: the next
// call of guard.Once runs it again. It returns false if there is no record. While its owner holds the
// key it changes nothing, and returns ErrInProgress. Other errors are those of Get; after a
// guard.StoreError, look at the key to know.
//
// The servers of a quorum have no records.
func (i *Inspector) Forget(ctx context.Context, key string) (bool, error) {
	lock, err := i.lockOf(ctx, key)
	if err != nil {
		return false, err
	}
	names := []string{lock, redisstore.RecordKey(i.prefix, key)}
	seen, err := i.forget(ctx, key, &call{keys: names})
	if err != nil || seen == int64(0) {
		return false, err
	}
	record, _ := seen.([]any)
	if len(record) != 2 {
		return false, strangeReply(key, seen)
	}
	reply, err := i.forget(ctx, key, &call{keys: names, args: record})
	if err != nil {
		return false, err
	}
	switch reply {
	case int64(0):
		return false, nil
	case int64(1):
		return true, nil
	case int64(2):
		return false, ErrInProgress
	}
	return false, strangeReply(key, reply)
}

// forget runs the script forget: without arguments it says which record there is.
func (i *Inspector) forget(ctx context.Context, key string, c *call) (any, error) {
	if err := forgetScript.run(ctx, i.client, []*call{c}); err != nil {
		return nil, failed("forget", key, err)
	}
	if c.err != nil {
		return nil, failed("forget", key, c.err)
	}
	return c.reply, nil
}

func strangeReply(key string, reply any) error {
	return &FormatError{Key: key, Reason: fmt.Sprintf("unexpected reply of type %T", reply)}
}
