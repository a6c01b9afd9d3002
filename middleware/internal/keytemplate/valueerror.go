package keytemplate

import "errors"

// ValueError says why a placeholder has no usable value. Its text never holds the value.
// It is the Err of the guard.KeyError that Template.Key returns.
type ValueError struct {
	Reason string
	// Unfit is set where no request of this kind could have a value: the template does
	// not fit the route. Otherwise it is this request that lacks it.
	Unfit bool
}

// Error gives the reason.
func (e *ValueError) Error() string { return e.Reason }

// Invalid is the error of a value that is there but cannot be used.
func Invalid(reason string) error { return &ValueError{Reason: reason} }

// Unfit is the error of a placeholder that no request here can answer.
func Unfit(reason string) error { return &ValueError{Reason: reason, Unfit: true} }

// ValueErrorIn finds the ValueError in err, nil if there is none.
func ValueErrorIn(err error) *ValueError {
	var found *ValueError
	if errors.As(err, &found) {
		return found
	}
	return nil
}

var (
	errMissing = Invalid("missing or empty")
	errNotUTF8 = Invalid("not UTF-8")
)
