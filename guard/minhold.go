package guard

import (
	"fmt"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// MinHold keeps the key taken until d after it was granted, even if the work ends sooner,
// whatever the work returned, and if it panicked: work that is to run once per tick of many
// clocks does not run again when the tick of another process is a little later. WithLock and
// Release return when the work is done, not after d.
//
// d is measured by the clock of Redis, since the grant. Nothing is renewed after the end of
// the work. The process may end then: the key is free after d. Until then no caller gets
// it, also not in this process. Callers that wait get it afterwards, in order, within a
// second. A caller whose wait ends before gets a BusyError with HeldOver set, whose ErrorType is
// lock_held_over. Work that lasts longer than d keeps the lock for as long as it lasts, as
// without MinHold.
//
// A process that crashes under its work frees the key after the ttl, even if that is sooner
// than d; so does one whose release does not reach Redis. An inner call on a key that is
// held already joins that hold, with the MinHold of the outer one. A hold that was revoked keeps
// nothing.
//
// The default is 0: no such time. The bounds are 0 and 24 h, and what goes beyond a MaxHold
// is an error, whichever of both is given first. So is a MinHold with Limit or Shared. d is cut
// to whole milliseconds.
func MinHold(d time.Duration) LockOption {
	return lockOption(func(s *settings) error {
		if d < 0 || d > maxTTL {
			return &OptionError{"MinHold", fmt.Sprintf("%v is outside 0s to %v", d, maxTTL)}
		}
		if err := checkDuration("MinHold", d); err != nil {
			return err
		}
		s.minHold = d.Truncate(time.Millisecond)
		return nil
	})
}

// checkHold looks at what only two options together can have wrong.
func (s *settings) checkHold() error {
	if s.maxHold > 0 && s.minHold > s.maxHold {
		return &OptionError{"MinHold", fmt.Sprintf("%v is longer than MaxHold, %v", s.minHold, s.maxHold)}
	}
	if s.minHold > 0 && s.limit != guardstore.Exclusive {
		return &OptionError{"MinHold", "does not go with Limit or Shared: it keeps the whole key"}
	}
	return nil
}
