package outcome

import (
	"net/http"

	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// The table of answers. A code is what a client is told, and not always what telemetry
// calls the error: docs/failure-modes.md has both side by side. Retry-After and the status
// of busy are filled in later. The texts do not say that nothing was done: the error of a
// lock taken in code may come from the middle of the work.
var table = map[locking.Kind]Outcome{
	locking.Foreign: {Status: http.StatusInternalServerError},
	locking.Busy: {
		Code: "lock_busy", title: "Resource is busy",
		detail: "Another request or job is working on this resource. Try again later.",
	},
	locking.WaitTimeout: {
		Code: "lock_wait_timeout", title: "Resource is still busy",
		detail: "Another request or job did not finish with this resource in time. Try again later.",
	},
	locking.Deadline: {
		Status: http.StatusServiceUnavailable, Code: "deadline_exceeded", title: "Request timed out",
		detail: "The time for this request ran out. Try again later.",
	},
	locking.Cancelled: {Status: StatusClientClosed},
	locking.Down: {
		Status: http.StatusServiceUnavailable, Code: "lock_store_unavailable", title: "Lock store unavailable",
		detail: "The resource cannot be locked at the moment. Try again later.",
	},
	locking.Closed: {
		Status: http.StatusServiceUnavailable, Code: "shutting_down", title: "Shutting down",
		detail: "This server takes no new work. Try again later.",
	},
	locking.Lost: {
		Status: http.StatusInternalServerError, Code: "lock_lost", title: "Lock lost",
		detail: "The resource's lock was lost while the request was being served. Its outcome is not known.",
	},
	locking.OtherInput: {
		Status: http.StatusUnprocessableEntity, Code: "idempotency_key_reused", title: "Idempotency key reused",
		detail: "An earlier request with this key was another one.",
	},
	locking.UnknownOutcome: {
		Status: http.StatusConflict, Code: "idempotency_outcome_unknown", title: "Outcome unknown",
		detail: "An earlier request with this key began, and its outcome is not known. It is not run again.",
	},
	locking.NotKept: {
		Status: http.StatusConflict, Code: "idempotency_result_not_kept", title: "Result not kept",
		detail: "An earlier request with this key was served, and its answer was not kept. It is not run again.",
	},
	locking.KeyMissing: {
		Status: http.StatusBadRequest, Code: "lock_key_invalid", title: "Invalid lock key",
		detail: "The request does not say which resource it is for, or not in a valid way.",
	},
	locking.KeyFailed: keyFailed,
	locking.KeyUnfit:  keyFailed,
	locking.NoGuard:   notSetUp("no_guard"),
	locking.BadOption: notSetUp("option_invalid"),
	locking.Upgrade:   notSetUp("lock_upgrade"),
}

var keyFailed = Outcome{
	Status: http.StatusInternalServerError, Code: "lock_key_invalid", title: "Invalid lock key",
	detail: "The server could not tell which resource the request is for.",
}

func notSetUp(code string) Outcome {
	return Outcome{
		Status: http.StatusInternalServerError, Code: code, title: "Lock not set up",
		detail: "The server is not set up to lock this resource.",
	}
}

// What only a Rule with Once answers. The status of inProgress is that of a busy lock.
var (
	inProgress = Outcome{
		Code: "idempotency_in_progress", title: "Request in progress",
		detail: "An earlier request with this key is being served. Try again later.",
	}
	bodyTooLarge = Outcome{
		Status: http.StatusRequestEntityTooLarge, Code: "body_too_large", title: "Body too large",
		detail: "The body of the request is too large.",
	}
	bodyUnreadable = Outcome{
		Status: http.StatusBadRequest, Code: "body_unreadable", title: "Body unreadable",
		detail: "The body of the request could not be read.",
	}
)
