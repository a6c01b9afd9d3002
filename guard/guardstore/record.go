package guardstore

import (
	"context"
	"time"
)

// Recorder is a Store that keeps, next to a lock, a record of the work that ran under it: see
// guard.Once. Its Acquire and Release do what Claim.Once and Release.Record say, in the same atomic
// step. On any other Store, guard.Once is an OptionError.
type Recorder interface {
	Store

	// Forget deletes the record of a key. It changes nothing while the owner that began holds the
	// key.
	Forget(ctx context.Context, key string) (ForgetStatus, error)
}

// Once has a claim ask for the record of its key.
//
// Where the record says that the work is done, that its result was not kept, or that it had
// another input, the reply is ClaimRecorded, and the claim gets nothing. With AtMostOnce that is also the
// reply where another owner began, and ended without a result. In all other cases, the claim that gets
// the key writes, in the same step, that it began.
type Once struct {
	Keep        time.Duration // how long the record lives from each time that it is written; whole milliseconds
	Fingerprint string        // of the input, without spaces; empty = it matches each
	AtMostOnce  bool
}

// Record is what a store knows of the work of a key.
type Record struct {
	State  RecordState
	Fence  uint64        // under which the work began
	Age    time.Duration // since the record was written
	Holder string        // the Metadata of the claim that began
	Result []byte        // of RecordDone
}

// RecordState is how far the work of a record came.
type RecordState int

// How far the work came.
const (
	RecordBegun      RecordState = iota + 1 // it began; nothing is known of its end
	RecordDone                              // it has a result
	RecordNotKept                           // it was done, its result was not kept
	RecordOtherInput                        // ClaimRecorded: another input had it; there is no Result
)

// Outcome is what the release of an owner that began writes. It is written if the owner holds
// the key and the record is not another owner's, or if AtMostOnce is set and no other owner began
// since. Where there is no result, the record is deleted, unless an owner before began and never
// finished: that is what it says again then.
type Outcome struct {
	Once

	State RecordState // RecordDone, RecordNotKept; 0: the work failed, or never ran

	Result []byte
	Holder string // as the claim's Metadata
}

// ForgetStatus is what became of a Forget.
type ForgetStatus int

// What became of it.
const (
	ForgetNone ForgetStatus = iota + 1 // there is no record
	ForgetDone                         // the record was deleted
	ForgetBusy                         // the owner that began holds the key: nothing was changed
)
