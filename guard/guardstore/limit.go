package guardstore

import "strconv"

// Limit is how many holders a claim tolerates, itself included: n, which is 2 at least, or
// one of the constants. The zero value is Exclusive.
type Limit int

// The limits that are no numbers.
const (
	Exclusive Limit = 0  // no other holder
	Unlimited Limit = -1 // any number of others, if none of them is exclusive
)

// Fits reports whether n holders are within the limit.
func (l Limit) Fits(n int) bool { return n <= 1 || l == Unlimited || n <= int(l) }

// String is "exclusive", "unlimited" or the number.
func (l Limit) String() string {
	switch l {
	case Exclusive:
		return "exclusive"
	case Unlimited:
		return "unlimited"
	}
	return strconv.Itoa(int(l))
}

// NewOwner makes the owner of a claim: instance, which is without '-', the limit, and a
// number that the instance uses once. Unless the limit is Exclusive, the owner says it, as
// "<limit>." in front of the number, 0 for Unlimited: the queue of a key shows by it
// which claims may hold the lock together.
func NewOwner(instance string, limit Limit, number uint64) string {
	owner := instance + "-"
	switch limit {
	case Exclusive:
	case Unlimited:
		owner += "0."
	default:
		owner += limit.String() + "."
	}
	return owner + strconv.FormatUint(number, 36)
}
