package watchdog

import (
	"context"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
)

const (
	batchSize = 500 // grants a pipeline

	// Senders is how many pipelines go out at a time.
	Senders = 4
)

// startSender starts one more sender if grants are due. Senders that run already may be held up by a silent
// connection. It needs w.mu.
func (w *Watchdog) startSender() {
	if len(w.due) > 0 && w.senders < Senders && w.Tasks.Go(w.sendDue) {
		w.senders++
	}
}

// sendDue renews the grants that are due, a batch at a time.
func (w *Watchdog) sendDue() {
	for {
		w.mu.Lock()
		batch, requests, patience := w.takeDue()
		w.startSender() // for the other grants
		if len(batch) == 0 {
			w.senders--
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		w.send(batch, requests, patience)
	}
}

// takeDue returns the next batch of grants that are due and still watched, and for how long to wait for its
// replies. It needs w.mu.
func (w *Watchdog) takeDue() (batch []*Grant, requests []guardstore.Grant, patience time.Duration) {
	at := clock.Now()
	patience = time.Second
	for len(w.due) > 0 && len(batch) < batchSize {
		t := w.due[0]
		w.due = w.due[1:]
		if !w.grants[t] {
			continue
		}
		batch, requests = append(batch, t), append(requests, t.request())
		patience = min(patience, max(t.Claim.TTL/6, 20*time.Millisecond), t.deadline.Sub(at))
	}
	return batch, requests, patience
}

func (w *Watchdog) send(batch []*Grant, requests []guardstore.Grant, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	sent := clock.Now()
	replies := w.Store.Renew(ctx, requests)
	var lost losses
	notified := make([][]Holder, len(batch))
	for i, t := range batch {
		notified[i] = w.renewed(t, sent, replies[i], &lost)
	}
	lost.report(w)
	for i, holders := range notified {
		for _, h := range holders {
			h.Renewed(replies[i].Err)
		}
	}
}

// renewed handles a reply. It returns the grant's holders, or adds the grant to lost if it is. No holder
// is notified if the grant was released or ended meanwhile: the reply is out of date then.
func (w *Watchdog) renewed(t *Grant, sent clock.Instant, r guardstore.RenewReply, lost *losses) []Holder {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.grants[t] {
		return nil
	}
	at := clock.Now()
	t.renewing = false
	ttl := t.Claim.TTL
	if r.Err != nil {
		t.lastErr = r.Err
		t.renewAt = at.Add(min(max(ttl/20, 5*time.Millisecond), time.Second))
	} else {
		t.lastErr = nil
		t.renewAt = t.renewAt.Add(ttl / 3) // from the schedule, not from now: no drift
	}
	cause := t.endedBy(at) // too late, even for good news
	switch {
	case cause != nil:
	case r.Err == nil && !r.Held:
		cause = NotHeld(r)
	default:
		if r.Err == nil {
			t.deadline = trustedUntil(sent, ttl)
		}
		w.poke(t)
		return slices.Clone(t.holders)
	}
	w.end(t, cause, lost)
	return nil
}

// NotHeld returns why a grant ended, given a reply that the store does not hold it.
func NotHeld(r guardstore.RenewReply) error {
	if r.Revoked {
		return ErrRevoked
	}
	return ErrNotHeld
}
