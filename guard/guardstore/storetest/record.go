package storetest

import (
	"testing"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// TestRecords runs the part of the contract about records, see guardstore.Recorder. newStore
// returns a Recorder.
func TestRecords(t *testing.T, newStore func(tb testing.TB) guardstore.Store) {
	t.Helper()
	run(t, "records", newStore, recordContract)
}

var recordContract = []contractRow{
	{"a result is kept, and each later or late claim gets it, if it asks for one", (*storeTest).recordDone},
	{"a result lives as long as it is to", (*storeTest).recordExpires},
	{"a record lives while its work runs, and for its time after that", (*storeTest).recordOutlivesWork},
	{"a record outlives the lease of an owner that crashed", (*storeTest).recordOutlivesLease},
	{"while the work runs, the key is busy", (*storeTest).recordBegun},
	{"a result is found, and forgotten, while a MinHold keeps the key", (*storeTest).recordMinHold},
	{"another input is refused, before and after", (*storeTest).recordOtherInput},
	{"work that failed leaves no record", (*storeTest).recordFailed},
	{"an owner that follows a crash learns its fence, and leaves the record if it fails", (*storeTest).recordFailedAfterCrash},
	{"at most once, no owner follows a crash", (*storeTest).recordAtMostOnce},
	{"an outcome that comes after a loss is written at most once only", (*storeTest).recordAfterLoss},
	{"an outcome overwrites nothing of an owner that began since", (*storeTest).recordOfAnother},
	{"a hold that is granted once more does not let an outcome overwrite another's", (*storeTest).recordOfAnotherGrant},
	{"asking twice, and releasing twice, is doing it once", (*storeTest).recordTwice},
	{"all that wait are asked to ask, and find the result", (*storeTest).recordWaiters},
	{"a record is forgotten, but not while its work runs", (*storeTest).recordForget},
	{"a record, also of a result that was not kept, is not forgotten in the place of another", (*storeTest).recordForgetOther},
	{"any byte is a result", (*storeTest).recordBytes},
}

func (s *storeTest) once(owner string, o guardstore.Once) guardstore.ClaimReply {
	s.Helper()
	if o.Keep == 0 {
		o.Keep = contractTTL
	}
	c := s.claim(owner)
	c.Once = &o
	return s.asks(c)
}

// begins is once for a claim that has to get the key.
func (s *storeTest) begins(owner string, o guardstore.Once) guardstore.ClaimReply {
	s.Helper()
	r := s.once(owner, o)
	s.check(r.Status == guardstore.ClaimHeld, "%s: %+v, want held", owner, r)
	return r
}

// finds is once for a claim that has to find a record.
func (s *storeTest) finds(owner string, o guardstore.Once, want guardstore.RecordState) guardstore.Record {
	s.Helper()
	r := s.once(owner, o)
	s.check(r.Status == guardstore.ClaimRecorded && r.Record != nil && r.Record.State == want, "%s: %+v, want a record in state %d", owner, r, want)
	return *r.Record
}

func (s *storeTest) finishes(owner string, fence uint64, o guardstore.Outcome, want guardstore.ReleaseStatus) {
	s.Helper()
	if o.Keep == 0 {
		o.Keep = contractTTL
	}
	o.Holder = "of " + owner
	s.releases(guardstore.Release{Owner: owner, Fence: fence, Record: &o}, want)
}

func done(result string) guardstore.Outcome {
	return guardstore.Outcome{State: guardstore.RecordDone, Result: []byte(result)}
}

func (s *storeTest) recordDone() {
	r := s.begins("a", guardstore.Once{})
	s.check(r.Earlier == 0, "earlier %d", r.Earlier)
	s.finishes("a", r.Fence, done("42"), guardstore.ReleaseDone)
	for _, owner := range []string{"b", "c", "a"} { // that of a is executed once more
		found := s.finds(owner, guardstore.Once{}, guardstore.RecordDone)
		s.check(string(found.Result) == "42" && found.Fence == r.Fence && found.Holder == "of a", "%s: %+v", owner, found)
		s.check(found.Age >= 0 && found.Age < time.Minute, "age %v", found.Age)
		s.leaves(s.hold("d", contractTTL)) // the key is free all the while
	}
}

func (s *storeTest) recordExpires() {
	r := s.begins("a", guardstore.Once{})
	o := done("42")
	o.Keep = 100 * time.Millisecond
	s.finishes("a", r.Fence, o, guardstore.ReleaseDone)
	b := s.claim("b")
	b.Once = &guardstore.Once{Keep: contractTTL}
	s.getsWithin(grantTime, b)
	s.check(s.asks(b).Earlier == 0, "there was an earlier one")
}

// recorded is which record the key has.
func (s *storeTest) recorded() guardstore.RecordID {
	s.Helper()
	id, err := s.store.(guardstore.Recorder).Recorded(s.Context(), s.key)
	s.check(err == nil, "recorded: %v", err)
	return id
}

// recordOutlivesWork has work that takes longer than its record is to live, and whose end is not known.
func (s *storeTest) recordOutlivesWork() {
	const keep = 300 * time.Millisecond
	o := guardstore.Once{Keep: keep, AtMostOnce: true}
	g := s.gets(guardstore.Claim{Key: s.key, Owner: "a", TTL: keep, Once: &o})
	g.TTL = contractTTL
	s.renewed(g, true) // the lease does not end; the record would
	g.TTL, g.Keep = keep, keep
	for end := time.Now().Add(3 * keep); time.Now().Before(end); time.Sleep(keep / 10) {
		s.renewed(g, true)
	}
	ended := time.Now() // the latest renewal was just before
	s.check(s.recorded() == guardstore.RecordID{State: guardstore.RecordBegun, Fence: g.Fence}, "the record ended under the work: %+v", s.recorded())
	s.leaves(g)
	for s.recorded().State != guardstore.RecordNone {
		s.check(time.Since(ended) < grantTime, "the record lives longer than its time")
		time.Sleep(keep / 50)
	}
	s.check(time.Since(ended) > keep, "the record lives shorter than its time: %v", time.Since(ended))
}

// recordOutlivesLease has an owner crash: the record lives until Keep, which is shorter, after the lease.
func (s *storeTest) recordOutlivesLease() {
	c := guardstore.Claim{
		Key: s.key, Owner: "a", TTL: time.Second, Metadata: "of a", Once: &guardstore.Once{Keep: 900 * time.Millisecond, AtMostOnce: true},
	}
	s.gets(c)
	for end := time.Now().Add(grantTime); s.once("b", *c.Once).Status == guardstore.ClaimBusy; time.Sleep(5 * time.Millisecond) {
		s.check(time.Now().Before(end), "the lease does not end")
	}
	s.finds("c", *c.Once, guardstore.RecordBegun)
}

func (s *storeTest) recordBegun() {
	s.begins("a", guardstore.Once{})
	for _, o := range []guardstore.Once{{}, {AtMostOnce: true}} {
		r := s.once("b", o)
		s.check(r.Status == guardstore.ClaimBusy && r.Holder == "of a", "%+v", r)
	}
}

func (s *storeTest) recordMinHold() {
	r := s.begins("a", guardstore.Once{})
	o := done("42")
	o.Keep = contractTTL
	s.check(s.releases(guardstore.Release{Owner: "a", Fence: r.Fence, MinHold: contractTTL, Record: &o}, guardstore.ReleaseDone).HeldOver, "not held over")
	s.check(s.busy("b").Done, "the key is not held over")
	s.check(string(s.finds("b", guardstore.Once{}, guardstore.RecordDone).Result) == "42", "another result")
	s.forgets(s.recorded(), guardstore.ForgetDone)
}

func (s *storeTest) recordOtherInput() {
	one, two := guardstore.Once{Fingerprint: "one"}, guardstore.Once{Fingerprint: "two"}
	r := s.begins("a", one)
	s.finds("b", two, guardstore.RecordOtherInput)
	s.check(s.once("c", one).Status == guardstore.ClaimBusy, "the same input is not busy")
	o := done("42")
	o.Fingerprint = "one"
	s.finishes("a", r.Fence, o, guardstore.ReleaseDone)
	found := s.finds("d", two, guardstore.RecordOtherInput)
	s.check(len(found.Result) == 0, "the result of another input is shown")
	s.finds("e", one, guardstore.RecordDone)
	s.finds("f", guardstore.Once{}, guardstore.RecordDone)
}

func (s *storeTest) recordFailed() {
	r := s.begins("a", guardstore.Once{AtMostOnce: true})
	s.finishes("a", r.Fence, guardstore.Outcome{Once: guardstore.Once{AtMostOnce: true}}, guardstore.ReleaseDone)
	r = s.begins("b", guardstore.Once{AtMostOnce: true})
	s.check(r.Earlier == 0, "earlier %d", r.Earlier)
}

func (s *storeTest) recordFailedAfterCrash() {
	fence := s.crash("a", guardstore.Once{})
	r := s.begins("b", guardstore.Once{})
	s.check(r.Earlier == fence && s.begins("b", guardstore.Once{}).Earlier == fence, "b does not learn of a, or not when it asks again")
	s.finishes("b", r.Fence, guardstore.Outcome{}, guardstore.ReleaseDone)
	s.finishes("b", r.Fence, guardstore.Outcome{}, guardstore.ReleaseLost)
	s.check(s.finds("c", guardstore.Once{AtMostOnce: true}, guardstore.RecordBegun).Fence == fence, "at most once, c does not learn of a")
	r = s.begins("d", guardstore.Once{})
	s.check(r.Earlier == fence, "d does not learn of a")
	s.finishes("d", r.Fence, done("42"), guardstore.ReleaseDone)
	s.finds("e", guardstore.Once{}, guardstore.RecordDone)
}

// crash makes an owner begin and leave without an outcome.
func (s *storeTest) crash(owner string, o guardstore.Once) (fence uint64) {
	s.Helper()
	r := s.begins(owner, o)
	s.leaves(guardstore.Grant{Owner: owner, Fence: r.Fence})
	return r.Fence
}

func (s *storeTest) recordAtMostOnce() {
	o := guardstore.Once{AtMostOnce: true}
	fence := s.crash("a", o)
	for _, owner := range []string{"b", "c"} {
		found := s.finds(owner, o, guardstore.RecordBegun)
		s.check(found.Fence == fence && found.Holder == "of a", "%+v", found)
	}
	s.hold("d", contractTTL)
	s.finds("e", o, guardstore.RecordBegun)
}

func (s *storeTest) recordAfterLoss() {
	once := guardstore.Once{AtMostOnce: true}
	o := done("42")
	fence := s.crash("a", once)
	s.finishes("a", fence, o, guardstore.ReleaseLost)
	s.finds("b", once, guardstore.RecordBegun)
	o.AtMostOnce = true
	s.finishes("a", fence, o, guardstore.ReleaseLost)
	s.finds("c", once, guardstore.RecordDone)

	s.key += "2"
	fence = s.crash("a", once)
	s.finishes("a", fence, guardstore.Outcome{Once: once}, guardstore.ReleaseLost) // it failed
	s.begins("b", once)
}

func (s *storeTest) recordOfAnother() {
	fence := s.crash("a", guardstore.Once{})
	r := s.begins("b", guardstore.Once{})
	for _, o := range []guardstore.Outcome{done("of a"), {State: guardstore.RecordNotKept}, {}} {
		o.AtMostOnce = true
		s.finishes("a", fence, o, guardstore.ReleaseLost)
		s.check(s.once("c", guardstore.Once{}).Status == guardstore.ClaimBusy, "the record of b was overwritten")
	}
	s.finishes("b", r.Fence, done("of b"), guardstore.ReleaseDone)
	o := done("of a")
	o.AtMostOnce = true
	s.finishes("a", fence, o, guardstore.ReleaseLost)
	s.check(string(s.finds("d", guardstore.Once{}, guardstore.RecordDone).Result) == "of b", "the result of b was overwritten")
}

// recordOfAnotherGrant has an acquire of a arrive a second time, while b holds the key: a waits, and is
// granted it with the release of b.
func (s *storeTest) recordOfAnotherGrant() {
	for _, o := range []guardstore.Outcome{done("of a"), {State: guardstore.RecordNotKept}, {}} {
		s.key += "+"
		s.listen("a")
		c := guardstore.Claim{Key: s.key, Owner: "a-1", TTL: 100 * time.Millisecond, Queue: true, Once: &guardstore.Once{Keep: contractTTL}}
		first := s.gets(c)
		b := s.claim("b")
		b.Once = c.Once
		r := s.getsWithin(grantTime, b)
		s.check(s.begins("b", guardstore.Once{}).Earlier == first.Fence, "b does not learn of a")
		s.check(s.asks(c).Status == guardstore.ClaimBusy, "a is not busy")
		s.finishes("b", r.Fence, done("of b"), guardstore.ReleaseDone)
		s.finishes("a-1", first.Fence, o, guardstore.ReleaseDone)
		s.check(string(s.finds("c", guardstore.Once{}, guardstore.RecordDone).Result) == "of b", "the result of b was overwritten")
	}
}

func (s *storeTest) recordTwice() {
	first, second := s.begins("a", guardstore.Once{}), s.begins("a", guardstore.Once{})
	s.check(first.Fence == second.Fence && second.Earlier == 0, "%+v and %+v", first, second)
	s.finishes("a", first.Fence, done("42"), guardstore.ReleaseDone)
	s.finishes("a", first.Fence, done("42"), guardstore.ReleaseLost)
	s.check(string(s.finds("b", guardstore.Once{}, guardstore.RecordDone).Result) == "42", "the result changed")

	s.key += "2"
	r := s.begins("a", guardstore.Once{})
	s.finishes("a", r.Fence, guardstore.Outcome{}, guardstore.ReleaseDone)
	r = s.begins("b", guardstore.Once{})
	s.finishes("a", first.Fence, guardstore.Outcome{}, guardstore.ReleaseLost)
	s.finishes("b", r.Fence, done("43"), guardstore.ReleaseDone)
	s.finds("c", guardstore.Once{}, guardstore.RecordDone)
}

func (s *storeTest) recordWaiters() {
	r := s.begins("a", guardstore.Once{})
	var waiting []*listener
	for _, instance := range []string{"b", "c", "d"} {
		waiting = append(waiting, s.listen(instance))
		c := queued(s.claim(instance + "-1"))
		c.Once = &guardstore.Once{Keep: contractTTL}
		s.check(s.asks(c).Status == guardstore.ClaimBusy, "%s is not busy", instance)
	}
	s.finishes("a", r.Fence, done("42"), guardstore.ReleaseDone)
	for i, instance := range []string{"b", "c", "d"} {
		waiting[i].receives(guardstore.Notification{Owner: instance + "-1"})
		s.finds(instance+"-1", guardstore.Once{}, guardstore.RecordDone)
	}
}

func (s *storeTest) forgets(id guardstore.RecordID, want guardstore.ForgetStatus) {
	s.Helper()
	got, err := s.store.(guardstore.Recorder).Forget(s.Context(), guardstore.Forget{Key: s.key, RecordID: id})
	s.check(err == nil && got == want, "forget %+v: %d, %v, want %d", id, got, err, want)
}

func (s *storeTest) recordForget() {
	s.check(s.recorded() == guardstore.RecordID{}, "%+v", s.recorded())
	s.forgets(guardstore.RecordID{State: guardstore.RecordDone, Fence: 1}, guardstore.ForgetNone)
	r := s.begins("a", guardstore.Once{})
	s.check(s.recorded() == guardstore.RecordID{State: guardstore.RecordBegun, Fence: r.Fence}, "%+v", s.recorded())
	s.forgets(s.recorded(), guardstore.ForgetBusy)
	s.finishes("a", r.Fence, done("42"), guardstore.ReleaseDone)
	id := s.recorded()
	s.check(id == guardstore.RecordID{State: guardstore.RecordDone, Fence: r.Fence}, "%+v", id)
	s.forgets(id, guardstore.ForgetDone)
	s.forgets(id, guardstore.ForgetNone)
	s.crash("b", guardstore.Once{})
	s.forgets(s.recorded(), guardstore.ForgetDone)
	s.check(s.begins("c", guardstore.Once{AtMostOnce: true}).Earlier == 0, "the record is still there")
}

// recordForgetOther has a Forget arrive once more after the work ran again, and after it failed to run at all.
func (s *storeTest) recordForgetOther() {
	s.crash("a", guardstore.Once{})
	begun := s.recorded()
	r := s.begins("b", guardstore.Once{})
	s.forgets(begun, guardstore.ForgetNone)
	s.finishes("b", r.Fence, guardstore.Outcome{State: guardstore.RecordNotKept}, guardstore.ReleaseDone)
	found, unkept := s.finds("x", guardstore.Once{}, guardstore.RecordNotKept), s.recorded()
	s.check(len(found.Result) == 0 && found.Fence == r.Fence && unkept.State == guardstore.RecordNotKept, "%+v, %+v", found, unkept)
	s.forgets(unkept, guardstore.ForgetDone)
	r = s.begins("c", guardstore.Once{})
	s.finishes("c", r.Fence, done("42"), guardstore.ReleaseDone)
	s.forgets(unkept, guardstore.ForgetNone)
	s.forgets(guardstore.RecordID{State: guardstore.RecordBegun, Fence: r.Fence}, guardstore.ForgetNone)
	s.finds("d", guardstore.Once{}, guardstore.RecordDone)
}

func (s *storeTest) recordBytes() {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for i, result := range []string{"", " ", "1 begun 2 3", string(all), "7 of", "\r\n"} {
		s.key += "+"
		owner := string(rune('a' + i))
		r := s.begins(owner, guardstore.Once{})
		s.finishes(owner, r.Fence, done(result), guardstore.ReleaseDone)
		found := s.finds("z", guardstore.Once{}, guardstore.RecordDone)
		s.check(string(found.Result) == result, "%q came back as %q", result, found.Result)
	}
}
