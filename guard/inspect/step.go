package inspect

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	revokedMark = "!" // before the owner that is to look whether it still holds its lock

	// A holder that began just now may not listen yet. If the server counts the receivers of a
	// message, a message that was received is not repeated.
	tellPulse = 25 * time.Millisecond
	tellMost  = 8 // tries; 3 if the number of receivers is not known
)

// Revoke ends a hold safely. Its holder is notified at once, or by its next renewal if the
// message is lost: the work's context ends with a guard.LostError whose Cause is
// guard.ErrRevoked. The key stays taken until the work returned, or until its lease ends.
//
// It returns true as long as that hold is there, however often it is called, and false if
// there is another hold, or none. When the holder's process does not listen, it repeats the
// message for some 0.2 s, and returns true in any case. It also stops when ctx ends. Errors are those of Get; after a guard.StoreError, call it again to know.
func (i *Inspector) Revoke(ctx context.Context, key string, fence uint64) (bool, error) {
	lock, err := i.lockOf(ctx, key)
	if err != nil {
		return false, err
	}
	owners, err := i.step(ctx, revokeScript, "revoke", key, fence, lock)
	if len(owners) == 0 {
		return false, err
	}
	i.notify(ctx, revokedMark+owners[0], owners[0])
	return true, nil
}

// Break ends a hold at once: the key goes to the first in the queue. Use it for a holder that you
// know is dead. If it lives, it is notified as by Revoke. Until its work returns, two hold the
// key, and only a fence can refuse its writes.
//
// It returns false if there is another hold, or none, and then changes nothing. Errors are
// those of Revoke.
func (i *Inspector) Break(ctx context.Context, key string, fence uint64) (bool, error) {
	lock, err := i.lockOf(ctx, key)
	if err != nil {
		return false, err
	}
	owners, err := i.step(ctx, breakScript, "break", key, fence, lock, lock+":queue", lock+":ended", lock+":wake", lock+":holders")
	if len(owners) == 0 {
		return false, err
	}
	for _, owner := range owners[1:] {
		i.publish(ctx, owner, owner)
	}
	i.publish(ctx, revokedMark+owners[0], owners[0])
	return true, nil
}

func (i *Inspector) lockOf(ctx context.Context, key string) (string, error) {
	if err := i.ready(ctx); err != nil {
		return "", err
	}
	if err := checkKey(key); err != nil {
		return "", err
	}
	return i.lockKey(key), nil
}

// step runs a script that changes a hold. It returns the owners to notify, the holder first, or
// none if there is no such hold.
func (i *Inspector) step(ctx context.Context, s *script, op, key string, fence uint64, keys ...string) ([]string, error) {
	c := &call{keys: keys, args: []any{strconv.FormatUint(fence, 10)}}
	if err := s.run(ctx, i.client, []*call{c}); err != nil {
		return nil, failed(op, key, err)
	}
	if c.err != nil {
		return nil, failed(op, key, c.err)
	}
	list, _ := c.reply.([]any)
	switch {
	case len(list) == 1 && list[0] == int64(0):
		return nil, nil
	case len(list) > 1 && list[0] == int64(1):
		owners := make([]string, len(list)-1)
		for n := range owners {
			owners[n], _ = list[n+1].(string)
		}
		return owners, nil
	}
	return nil, &FormatError{Key: key, Reason: "its hash has no owner"}
}

// notify publishes to the instance of an owner until the message is received, but not for long: its
// next renewal ends the hold, too.
func (i *Inspector) notify(ctx context.Context, message, owner string) {
	_, counts := i.client.(*redis.Client) // the nodes of a cluster count their own only
	most := tellMost
	if !counts {
		most = 3
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for try := range most {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if i.publish(ctx, message, owner) && counts {
			return
		}
		timer.Reset(tellPulse << min(try, 1))
	}
}

// publish says whether the message is known to be received.
func (i *Inspector) publish(ctx context.Context, message, owner string) bool {
	instance, _, _ := strings.Cut(owner, "-")
	var got *redis.IntCmd
	err := heed(ctx, func() { got = i.client.Publish(ctx, i.channel(instance), message) })
	return err == nil && got.Val() > 0
}

func isFormat(err error) bool { return errors.Is(err, ErrFormat) }
