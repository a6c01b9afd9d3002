package httplock

import (
	"net/http"

	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// table has the answer of each Kind. Of sets its code and Retry-After. The texts do not say that nothing was done: a
// handler may take a lock, and fail, in the middle of its work.
var table = map[locking.Kind]Problem{
	locking.Foreign:   {Type: "about:blank", Title: "Internal Server Error", Status: http.StatusInternalServerError},
	locking.Cancelled: {Status: StatusClientClosed},
	locking.Busy: answered(http.StatusConflict, "Resource is busy",
		"Another request or job is working on this resource. Try again later."),
	locking.WaitTimeout: answered(http.StatusConflict, "Resource is still busy",
		"Another request or job did not finish with this resource in time. Try again later."),
	locking.HeldOver: answered(http.StatusConflict, "Resource was just used",
		"A request or job has worked on this resource a moment ago. Try again later."),
	locking.Full: answered(http.StatusTooManyRequests, "Resource is full",
		"As many requests and jobs as may are working on this resource. Try again later."),
	locking.Deadline: answered(http.StatusServiceUnavailable, "Request timed out",
		"The time for this request ran out. Try again later."),
	locking.Down: answered(http.StatusServiceUnavailable, "Lock store unavailable",
		"The resource cannot be locked at the moment. Try again later."),
	locking.Closed: answered(http.StatusServiceUnavailable, "Shutting down",
		"This server takes no new work. Try again later."),
	locking.Lost: answered(http.StatusInternalServerError, "Lock lost",
		"The resource's lock was lost while the request was being served. Its outcome is not known."),
	locking.OtherInput: answered(http.StatusUnprocessableEntity, "Idempotency key reused",
		"An earlier request with this key was another one."),
	locking.UnknownOutcome: answered(http.StatusConflict, "Outcome unknown",
		"An earlier request with this key began, and its outcome is not known. It is not run again."),
	locking.NotKept: answered(http.StatusConflict, "Result not kept",
		"An earlier request with this key was served, and its answer was not kept. It is not run again."),
	locking.KeyMissing: answered(http.StatusBadRequest, invalidKey,
		"The request does not say which resource it is for, or not in a valid way."),
	locking.KeyFailed: answered(http.StatusInternalServerError, invalidKey, noKey),
	locking.KeyUnfit:  answered(http.StatusInternalServerError, invalidKey, noKey),
	locking.NoGuard:   answered(http.StatusInternalServerError, notSetUp, cannotLock),
	locking.BadOption: answered(http.StatusInternalServerError, notSetUp, cannotLock),
}

// The answers of a Rule with Once only.
var (
	inProgress = problem(http.StatusConflict, "idempotency_in_progress", "Request in progress",
		"An earlier request with this key is being served. Try again later.")
	bodyTooLarge = problem(http.StatusRequestEntityTooLarge, "body_too_large", "Body too large",
		"The body of the request is too large.")
	bodyUnreadable = problem(http.StatusBadRequest, "body_unreadable", "Body unreadable",
		"The body of the request could not be read.")
)

const (
	invalidKey = "Invalid lock key"
	noKey      = "The server could not tell which resource the request is for."
	notSetUp   = "Lock not set up"
	cannotLock = "The server is not set up to lock this resource."
)

// typeBase and a code are a URI that opens the list of codes.
const typeBase = "https://pkg.go.dev/github.com/redlatch/redlatch/middleware/nethttp#"

// answered returns a Problem without a code, which Of sets.
func answered(status int, title, detail string) Problem {
	return Problem{Title: title, Status: status, Detail: detail}
}

func problem(status int, code, title, detail string) Problem {
	return Problem{Type: typeBase + code, Title: title, Status: status, Detail: detail, Code: code}
}
