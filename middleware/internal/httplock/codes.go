package httplock

import (
	"net/http"

	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// The table of answers. A code is what guard's ErrorType says, or its more
// general case: docs/failure-modes.md has both side by side. Retry-After and the status
// of busy are filled in later. The texts do not say that nothing was done: the error of a
// lock taken in code may come from the middle of the work.
var table = map[locking.Kind]Problem{
	locking.Foreign:   {Type: "about:blank", Title: "Internal Server Error", Status: http.StatusInternalServerError},
	locking.Cancelled: {Status: StatusClientClosed},
	locking.Busy: problem(busy, "lock_busy", "Resource is busy",
		"Another request or job is working on this resource. Try again later."),
	locking.WaitTimeout: problem(busy, "lock_wait_timeout", "Resource is still busy",
		"Another request or job did not finish with this resource in time. Try again later."),
	locking.Deadline: problem(http.StatusServiceUnavailable, "deadline_exceeded", "Request timed out",
		"The time for this request ran out. Try again later."),
	locking.Down: problem(http.StatusServiceUnavailable, "lock_store_unavailable", "Lock store unavailable",
		"The resource cannot be locked at the moment. Try again later."),
	locking.Closed: problem(http.StatusServiceUnavailable, "shutting_down", "Shutting down",
		"This server takes no new work. Try again later."),
	locking.Lost: problem(http.StatusInternalServerError, "lock_lost", "Lock lost",
		"The resource's lock was lost while the request was being served. Its outcome is not known."),
	locking.OtherInput: problem(http.StatusUnprocessableEntity, "idempotency_key_reused", "Idempotency key reused",
		"An earlier request with this key was another one."),
	locking.UnknownOutcome: problem(http.StatusConflict, "idempotency_outcome_unknown", "Outcome unknown",
		"An earlier request with this key began, and its outcome is not known. It is not run again."),
	locking.NotKept: problem(http.StatusConflict, "idempotency_result_not_kept", "Result not kept",
		"An earlier request with this key was served, and its answer was not kept. It is not run again."),
	locking.KeyMissing: problem(http.StatusBadRequest, "lock_key_invalid", invalidKey,
		"The request does not say which resource it is for, or not in a valid way."),
	locking.KeyFailed: problem(http.StatusInternalServerError, "lock_key_invalid", invalidKey, noKey),
	locking.KeyUnfit:  problem(http.StatusInternalServerError, "lock_key_invalid", invalidKey, noKey),
	locking.NoGuard:   problem(http.StatusInternalServerError, "no_guard", notSetUp, cannotLock),
	locking.BadOption: problem(http.StatusInternalServerError, "option_invalid", notSetUp, cannotLock),
}

// What only a Rule with Once answers.
var (
	inProgress = problem(busy, "idempotency_in_progress", "Request in progress",
		"An earlier request with this key is being served. Try again later.")
	bodyTooLarge = problem(http.StatusRequestEntityTooLarge, "body_too_large", "Body too large",
		"The body of the request is too large.")
	bodyUnreadable = problem(http.StatusBadRequest, "body_unreadable", "Body unreadable",
		"The body of the request could not be read.")
)

// busy is filled in for each request.
const busy = 0

const (
	invalidKey = "Invalid lock key"
	noKey      = "The server could not tell which resource the request is for."
	notSetUp   = "Lock not set up"
	cannotLock = "The server is not set up to lock this resource."
)

// typeBase makes a code a URI of its own that opens the page on which codes are listed.
const typeBase = "https://pkg.go.dev/github.com/redlatch/redlatch/middleware/nethttp#"

func problem(status int, code, title, detail string) Problem {
	return Problem{Type: typeBase + code, Title: title, Status: status, Detail: detail, Code: code}
}
