package outcome

import "net/http"

const codeLost = "lock_lost"

// The table of answers. A code is what a client is told, and not always what telemetry
// calls the error: docs/failure-modes.md has both side by side. Retry-After and the status of busy are filled in later. The
// texts do not say that nothing was done: the error of a lock taken in code may come from
// the middle of the work.
var (
	busy = Outcome{
		Code: "lock_busy", title: "Resource is busy",
		detail: "Another request or job is working on this resource. Try again later.",
	}
	waited = Outcome{
		Code: "lock_wait_timeout", title: "Resource is still busy",
		detail: "Another request or job did not finish with this resource in time. Try again later.",
	}
	deadline = Outcome{
		Status: http.StatusServiceUnavailable, Code: "deadline_exceeded", title: "Request timed out",
		detail: "The time for this request ran out. Try again later.",
	}
	storeDown = Outcome{
		Status: http.StatusServiceUnavailable, Code: "lock_store_unavailable", title: "Lock store unavailable",
		detail: "The resource cannot be locked at the moment. Try again later.",
	}
	closed = Outcome{
		Status: http.StatusServiceUnavailable, Code: "shutting_down", title: "Shutting down",
		detail: "This server takes no new work. Try again later.",
	}
	lost = Outcome{
		Status: http.StatusInternalServerError, Code: codeLost, title: "Lock lost",
		detail: "The resource's lock was lost while the request was being served. Its outcome is not known.",
	}
	keyMissing = Outcome{
		Status: http.StatusBadRequest, Code: "lock_key_invalid", title: "Invalid lock key",
		detail: "The request does not say which resource it is for, or not in a valid way.",
	}
	keyFailed = Outcome{
		Status: http.StatusInternalServerError, Code: "lock_key_invalid", title: "Invalid lock key",
		detail: "The server could not tell which resource the request is for.", Fault: KeyFailed,
	}
	// A key function that says by itself how it is answered.
	keyRefused = Outcome{Code: "lock_key_invalid", title: "Invalid lock key"}
	noGuard    = Outcome{
		Status: http.StatusInternalServerError, Code: "no_guard", title: "Lock not set up",
		detail: "The server is not set up to lock this resource.", Fault: NoGuard,
	}
	badOption = Outcome{
		Status: http.StatusInternalServerError, Code: "option_invalid", title: "Lock not set up",
		detail: noGuard.detail, Fault: BadOption,
	}
	upgrade = Outcome{
		Status: http.StatusInternalServerError, Code: "lock_upgrade", title: "Lock not set up",
		detail: noGuard.detail, Fault: BadOption,
	}
	unknown = Outcome{Status: http.StatusInternalServerError}
)
