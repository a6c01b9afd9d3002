package guard

import "github.com/redlatch/redlatch/guard/internal/clock"

// A Guard that is used on both sides of a bubble's wall hangs: time stands still on one of them.
var (
	errIntoBubble error = &OptionError{"Guard", "was made outside of this testing/synctest bubble: " +
		"make it inside, by guardtest.NewMemoryGuard with the t of the bubble"}
	errOutOfBubble error = &OptionError{"Guard", "was made inside of a testing/synctest bubble, and is used outside: " +
		"use it and close it inside, or make it outside"}
	errRealClient error = &OptionError{"client", "does not work inside of a testing/synctest bubble, where no time passes " +
		"while a connection is waited for: make the Guard by guardtest.NewMemoryGuard, or outside of the bubble"}
)

// checkSide says whether a Guard is on the caller's side of the wall at an instant.
func (g *Guard) checkSide(at clock.Instant) error {
	switch inside := at.InBubble(); {
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
