package guardecho

import (
	"errors"

	"github.com/labstack/echo/v4"

	"github.com/redlatch/redlatch/middleware/internal/echocore"
	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

// HTTPError turns an error of guard into the *echo.HTTPError that the package comment
// describes. Middleware does so by itself; this is for locks taken in code:
//
//	err := guard.WithLock(c.Request().Context(), key, work)
//	return guardecho.HTTPError(c, err)
//
// An error that is neither guard's nor the end of the request's context, one that is an
// *echo.HTTPError already, and nil come back as they are. HTTPError sets headers on the
// response, so its result is to be returned. For a client that is gone it commits the
// response with status 499, so that nobody renders a body for it.
func HTTPError(c echo.Context, err error) error {
	if _, answered := err.(*echo.HTTPError); err == nil || answered { //nolint:errorlint // what is inside is not the answer
		return err
	}
	answer := outcome.Of(c.Request().Context(), err, known)
	if !answer.Known() {
		return err
	}
	problem := &echocore.Problem{Problem: answer.Problem()}
	response := c.Response()
	switch {
	case response.Committed:
	case answer.Status == outcome.StatusClientClosed:
		response.WriteHeader(outcome.StatusClientClosed)
	default:
		problem.Prepare(response.Header(), response.Before)
	}
	return &echo.HTTPError{Code: problem.Status, Message: problem, Internal: err}
}

// known gives what an *echo.HTTPError says. Its message is for clients.
func known(err error) (status int, message string, ok bool) {
	var own *echo.HTTPError
	if !errors.As(err, &own) {
		return 0, "", false
	}
	switch m := own.Message.(type) {
	case string:
		message = m
	case error: // as echo's default HTTPErrorHandler does
		message = m.Error()
	}
	return own.Code, message, true
}
