package guardtest

import (
	"context"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// memoryRecord is what the store knows of the work of a key.
type memoryRecord struct {
	guardstore.Record

	owner       string // that began
	earlier     uint64 // the fence of the owner that began before
	fingerprint string
	written     time.Time
	until       time.Time
}

// Recorded implements guardstore.Recorder.
func (s *Store) Recorded(_ context.Context, key string) (guardstore.RecordID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return guardstore.RecordID{}, s.fail
	}
	if r := s.lock(key).record; r != nil {
		return r.id(), nil
	}
	return guardstore.RecordID{}, nil
}

// Forget implements guardstore.Recorder.
func (s *Store) Forget(_ context.Context, f guardstore.Forget) (guardstore.ForgetStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return 0, s.fail
	}
	l := s.lock(f.Key)
	switch r := l.record; {
	case r == nil, r.id() != f.RecordID:
		return guardstore.ForgetNone, nil
	case l.held(r.owner) != nil:
		return guardstore.ForgetBusy, nil
	}
	l.record = nil
	return guardstore.ForgetDone, nil
}

func (r *memoryRecord) id() guardstore.RecordID {
	return guardstore.RecordID{State: r.State, Fence: r.Fence}
}

// What follows needs Store.mu.

// recorded returns the reply to a claim if there is nothing to run.
func (l *memoryLock) recorded(c guardstore.Claim, at time.Time) (guardstore.ClaimReply, bool) {
	r := l.record
	if c.Once == nil || r == nil {
		return guardstore.ClaimReply{}, false
	}
	found := r.Record
	found.Age = at.Sub(r.written)
	switch {
	case c.Once.Fingerprint != "" && r.fingerprint != "" && c.Once.Fingerprint != r.fingerprint:
		found = guardstore.Record{State: guardstore.RecordOtherInput, Fence: found.Fence, Age: found.Age}
	case found.State != guardstore.RecordBegun:
		found.Result = slices.Clone(found.Result)
	case r.owner == c.Owner || !c.Once.AtMostOnce || l.held(r.owner) != nil:
		return guardstore.ClaimReply{}, false
	}
	return guardstore.ClaimReply{Status: guardstore.ClaimRecorded, Record: &found}, true
}

// begin writes that a claim got the key, and gives the fence of the owner that began before.
func (l *memoryLock) begin(c guardstore.Claim, fence uint64, at time.Time) (earlier uint64) {
	if c.Once == nil {
		return 0
	}
	if r := l.record; r != nil && r.owner == c.Owner {
		earlier = r.earlier
	} else if r != nil {
		earlier = r.Fence
	}
	l.record = &memoryRecord{
		Record: guardstore.Record{State: guardstore.RecordBegun, Fence: fence, Holder: c.Metadata},
		owner:  c.Owner, earlier: earlier, fingerprint: c.Once.Fingerprint, written: at, until: at.Add(c.TTL + c.Once.Keep),
	}
	return earlier
}

// renewRecord has the record of an owner that holds the key outlive its lease.
func (l *memoryLock) renewRecord(g guardstore.Grant, at time.Time) {
	if l.record != nil && g.Keep > 0 && g.TTL > 0 {
		l.record.until = at.Add(g.TTL + g.Keep)
	}
}

// finish writes the outcome of an owner. held says that it held the key until now.
func (s *Store) finish(l *memoryLock, r guardstore.Release, held bool, at time.Time) {
	o, record := r.Record, l.record
	if o == nil {
		return
	}
	own := record != nil && record.owner == r.Owner
	began := own && record.State == guardstore.RecordBegun
	held = held && (own || record == nil) // what it was granted once more is of another owner's record
	switch {
	case own && !began:
		record.until = at.Add(o.Keep) // it is asked twice
	case !held && (!began || !o.AtMostOnce):
	case o.State != guardstore.RecordNone:
		fence := r.Fence
		if began {
			fence = record.Fence
		}
		l.record = &memoryRecord{
			Record: guardstore.Record{State: o.State, Fence: fence, Holder: o.Holder, Result: slices.Clone(o.Result)},
			owner:  r.Owner, fingerprint: o.Fingerprint, written: at, until: at.Add(o.Keep),
		}
		for _, w := range l.queue {
			s.notify(guardstore.Notification{Owner: w.owner})
		}
	case began && record.earlier > 0:
		record.Fence, record.earlier, record.owner, record.until = record.earlier, 0, "", at.Add(o.Keep)
	default:
		l.record = nil
	}
}
