package guardecho

import (
	"github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/middleware/internal/echocore"
	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

// HTTPError turns an error of guard into the one that the package comment describes.
// Middleware does so by itself; this is for locks taken in code:
//
//	err := guard.WithLock(c.Request().Context(), key, work)
//	return guardecho.HTTPError(c, err)
//
// An error that is neither guard's nor the end of the request's context, one that has a
// StatusCode() int of its own, as an *echo.HTTPError has, and nil come back as they are.
// HTTPError sets headers on the response, so its result is to be returned. For a client
// that is gone it commits the response with status 499, so that nobody renders a body
// for it.
func HTTPError(c *echo.Context, err error) error {
	// What is inside of an error is not the answer.
	if _, answered := err.(echo.HTTPStatusCoder); err == nil || answered {
		return err
	}
	answer := outcome.Of(c.Request().Context(), err, known)
	if !answer.Known() {
		return err
	}
	problem := &echocore.Problem{Problem: answer.Problem()}
	response, _ := echo.UnwrapResponse(c.Response())
	switch {
	case response != nil && response.Committed:
	case answer.Status == outcome.StatusClientClosed:
		c.Response().WriteHeader(outcome.StatusClientClosed)
	case response == nil: // somebody's wrapper that does not unwrap
		problem.SetHeader(c.Response().Header())
	default:
		problem.Prepare(response.Header(), response.Before)
	}
	return &problemError{problem, echo.NewHTTPError(problem.Status, problem.Title).Wrap(err)}
}

// problemError is an *echo.HTTPError that echo's default HTTPErrorHandler sends as the
// problem it is. That handler, unlike echo v4's, looks for what an error can do.
type problemError struct {
	*echocore.Problem
	err error // an *echo.HTTPError with guard's error inside
}

func (e *problemError) Error() string { return e.err.Error() }

func (e *problemError) Unwrap() error { return e.err }

// StatusCode makes it an echo.HTTPStatusCoder.
func (e *problemError) StatusCode() int { return e.Status }

// known gives what an *echo.HTTPError says. Its message is for clients.
func known(err error) (status int, message string, ok bool) {
	own, ok := err.(*echo.HTTPError) //nolint:errorlint // the one whose status it is
	if !ok {
		return 0, "", false
	}
	return own.Code, own.Message, true
}
