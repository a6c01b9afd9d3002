package guardstore

import "strconv"

// Unlimited is the Limit of a claim that puts up with any number of others, if none of them
// is exclusive.
const Unlimited = -1

// NewOwner makes the owner of a claim: instance, which is without '-', the limit, and a
// number that the instance uses once. Where limit is more than one, or Unlimited, the owner
// says so, as "<limit>." in front of the number, 0 for Unlimited: whoever looks at the queue
// of a key knows by it whom it may let in together. All other owners are exclusive.
func NewOwner(instance string, limit int, number uint64) string {
	owner := instance + "-"
	switch {
	case limit == Unlimited:
		owner += "0."
	case limit > 1:
		owner += strconv.Itoa(limit) + "."
	}
	return owner + strconv.FormatUint(number, 36)
}
