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

	// Recorded returns which record a key has. It changes nothing.
	Recorded(ctx context.Context, key string) (RecordID, error)

	// Forget deletes the record of a key if it is still the named one. It changes nothing while the
	// owner that began holds the key.
	Forget(ctx context.Context, f Forget) (ForgetStatus, error)
}

// Once has a claim ask for the record of its key.
//
// Where the record says that the work is done, that its result was not kept, or that it had
// another input, the reply is ClaimRecorded, and the claim gets nothing. That is also the reply to a record that
// cannot be read. With AtMostOnce that is also the
// reply where another owner began, and ended without a result. In all other cases, the claim that gets
// the key writes, in the same step, that it began.
type Once struct {
	Keep        time.Duration // how long the record lives after the lease of the work, or after its outcome; whole milliseconds
	Fingerprint string        // of the input, without spaces; empty = it matches each
	AtMostOnce  bool
}

// Record is what a store knows of the work of a key. Of a record in the state RecordDamaged nothing else is known.
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
	RecordNone       RecordState = iota // there is no record
	RecordBegun                         // it began; nothing is known of its end
	RecordDone                          // it has a result
	RecordNotKept                       // it was done, its result was not kept
	RecordDamaged                       // the value is no record: the store cannot read it
	RecordOtherInput                    // ClaimRecorded: another input had it; there is no Result
)

// RecordID names one record of a key: a later record of the key has another one.
type RecordID struct {
	State RecordState
	Fence uint64
}

// Forget names a record that is to be deleted.
type Forget struct {
	Key string
	RecordID
}

// Outcome is what the release of an owner that began writes. It is written if the owner holds
// the key and the record is not another owner's, or if AtMostOnce is set and no other owner began
// since. RecordNone deletes the record, unless an owner before began and never
// finished: that is what it says again then.
type Outcome struct {
	Once

	State RecordState // RecordNone: the work failed, or never ran; RecordDone; RecordNotKept

	Result []byte // of RecordDone
	Holder string // the Metadata of the caller whose work ran
}

// ForgetStatus is what became of a Forget.
type ForgetStatus int

// What became of it.
const (
	ForgetNone ForgetStatus = iota + 1 // the record is not there any more
	ForgetDone                         // the record was deleted
	ForgetBusy                         // the owner that began holds the key: nothing was changed
)
