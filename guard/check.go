package guard

import (
	"fmt"
	"reflect"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
)

// A Guard that is used on both sides of a bubble's wall hangs: time stands still on one of them.
var (
	errIntoBubble error = &OptionError{"Guard", "was made outside of this testing/synctest bubble: " +
		"make it inside, by guardtest.NewMemoryGuard with the t of the bubble"}
	errOutOfBubble error = &OptionError{"Guard", "was made inside of a testing/synctest bubble, and is used outside: " +
		"use it and close it inside, or make it outside"}
	errRealClient error = &OptionError{"client", "does not work inside of a testing/synctest bubble, where no time passes " +
		"while a connection is waited for: make the Guard by guardtest.NewMemoryGuard, or outside of the bubble"}
)

// usable says why a Guard cannot be used here.
func (g *Guard) usable() error {
	if g == nil || g.store == nil {
		return ErrNoGuard // New and NewWithStore did not make it
	}
	switch inside := clock.Now().InBubble(); {
	case inside == g.bubble:
		return nil
	case inside:
		return errIntoBubble
	}
	return errOutOfBubble
}

// checkOutside is for what talks to real servers.
func checkOutside() error {
	if clock.Now().InBubble() {
		return errRealClient
	}
	return nil
}

// checkCall refuses what cannot be had of this Guard, or under the leases of the call's context.
func (g *Guard) checkCall(c *call) error {
	if store, checks := g.store.(guardstore.LimitChecker); checks && c.limit != guardstore.Exclusive {
		if err := store.CheckLimit(c.limit); err != nil {
			option := "Limit"
			if c.limit == guardstore.Unlimited {
				option = "Shared"
			}
			return &OptionError{option, err.Error()}
		}
	}
	if c.once != nil {
		if err := g.checkOnce(c); err != nil {
			return err
		}
	}
	// The call would wait for itself under a lock of another Guard.
	for l := c.outer; l != nil && g.space.at != nil; l = l.outer {
		excludes := l.exclusive() || c.limit == guardstore.Exclusive
		if l.hold.g != g && l.hold.g.space == g.space && l.Key() == c.lock.Key && excludes && l.Err() == nil {
			return &OptionError{"ctx", "holds the key by another Guard of the same Redis and Prefix: the call would wait for itself"}
		}
	}
	return nil
}

// checkOnce returns why a call cannot have a record, or nil.
func (g *Guard) checkOnce(c *call) error {
	_, recorder := g.store.(guardstore.Recorder)
	if err := c.checkOnce(); err != nil {
		return err
	}
	switch {
	case !recorder:
		return &OptionError{"Once", "needs one Redis, Sentinel or Cluster: this Guard's store keeps no records, as a quorum"}
	case c.under.inChain(g, c.lock.Key) != nil:
		return &OptionError{"key", "is locked by ctx already: Once needs a key of its own"}
	}
	return nil
}

// checkOnce refuses options that give several callers the lock, or none of them where Redis does not answer.
func (s *settings) checkOnce() error {
	if s.failOpen && s.once.AtMostOnce {
		return &OptionError{"FailOpen", "does not go with AtMostOnce: without Redis, it is not known whether the work ran before"}
	}
	switch s.limit {
	case guardstore.Exclusive:
		return nil
	case guardstore.Unlimited:
		return &OptionError{"Shared", "does not go with Once: one call runs, the others get its result"}
	}
	return &OptionError{"Limit", "does not go with Once: one call runs, the others get its result"}
}

// checkUpgrade refuses a call that wants more than the hold it would join has. The call would
// wait for itself.
func (l *Lease) checkUpgrade(c *call) error {
	held, wanted := l.hold.Claim.Limit, c.limit
	joins := wanted == guardstore.Unlimited || held != guardstore.Unlimited && held <= wanted // Exclusive is the least
	if !joins {
		return &OptionError{"ctx", fmt.Sprintf("holds the key with %s, and the call wants it with %s: release it first",
			limitText(held), limitText(wanted))}
	}
	return nil
}

func limitText(l guardstore.Limit) string {
	switch l {
	case guardstore.Unlimited:
		return "Shared"
	case guardstore.Exclusive:
		return "Limit(1), exclusively"
	}
	return fmt.Sprintf("Limit(%d)", l)
}

// space is where the locks of a Guard are, as far as this process can tell. Guards of equal spaces
// exclude each other. The zero space equals none.
type space struct {
	at     any // the address of one server; else the client or the store
	db     int
	prefix string
}

// failover is the address that go-redis gives every client that it makes for Sentinel.
const failover = "FailoverClient"

func spaceOf(client redis.UniversalClient, prefix string) space {
	if c, ok := client.(*redis.Client); ok && c.Options().Addr != failover {
		return space{c.Options().Addr, c.Options().DB, prefix}
	}
	return space{at: client, prefix: prefix}
}

func spaceOfStore(store guardstore.Store) space {
	if reflect.ValueOf(store).Kind() != reflect.Pointer {
		return space{} // it may not be comparable
	}
	return space{at: store}
}
