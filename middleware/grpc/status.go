package guardgrpc

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

const (
	domain   = "redlatch"
	pushback = "grpc-retry-pushback-ms"
)

type answer struct {
	code codes.Code
	text string
}

// table has the answer of each Kind. The reason of a status is the code of the error, in capitals.
var table = map[locking.Kind]answer{
	locking.Busy:        {codes.Aborted, "another call or job is working on this resource"},
	locking.WaitTimeout: {codes.Aborted, "another call or job did not finish with this resource in time"},
	locking.HeldOver:    {codes.Aborted, "a call or job has worked on this resource a moment ago"},
	locking.Full:        {codes.ResourceExhausted, "as many calls and jobs as may are working on this resource"},
	locking.Deadline:    {codes.DeadlineExceeded, "the time for this call ran out"},
	locking.Cancelled:   {codes.Canceled, "the caller has cancelled"},
	locking.Down:        {codes.Unavailable, "the resource cannot be locked at the moment"},
	locking.Closed:      {codes.Unavailable, "this server takes no new work"},
	locking.Lost:        {codes.Unknown, "the resource's lock was lost during the call: its outcome is not known"},
	locking.KeyMissing:  {codes.InvalidArgument, "the call does not say which resource it is for, or not in a valid way"},
	locking.KeyFailed:   {codes.Internal, "the server could not tell which resource the call is for"},
	locking.KeyUnfit:    {codes.Internal, "the server could not tell which resource the call is for"},
	locking.NoGuard:     {codes.Internal, notSetUp},
	locking.BadOption:   {codes.Internal, notSetUp},

	locking.OtherInput:     {codes.InvalidArgument, "the key was used for another request"},
	locking.UnknownOutcome: {codes.FailedPrecondition, "an earlier call with this key began, and its outcome is not known"},
	locking.NotKept:        {codes.FailedPrecondition, "an earlier call with this key was served, and its response was not kept"},
}

// inProgress is the reason of a busy lock for a method with Once.
const inProgress = "IDEMPOTENCY_IN_PROGRESS"

const notSetUp = "the server is not set up to lock this resource"

// StatusError turns an error of guard into the status that the package comment describes: the interceptors do so by
// themselves, this is for locks taken in code.
//
//	return resp, guardgrpc.StatusError(ctx, guard.WithLock(ctx, key, work))
//
// ctx is the context of the call, whose trailer StatusError may set. It returns nil, and an error that is neither
// guard's nor the end of ctx, as they are.
func StatusError(ctx context.Context, err error) error {
	means := locking.Classify(ctx, err)
	given, known := table[means.Kind]
	if !known {
		return err
	}
	if own := ownStatus(means.Kind, err); own != nil {
		return &statusError{own, err}
	}
	reason := strings.ToUpper(means.Code)
	if errors.As(err, new(*locking.InProgressError)) && means.Kind.IsBusy() {
		given.code, reason = codes.Aborted, inProgress
	}
	var details []protoadapt.MessageV1
	if reason != "" {
		details = append(details, &errdetails.ErrorInfo{Reason: reason, Domain: domain})
	}
	switch {
	case means.Kind == locking.Lost, means.Kind == locking.UnknownOutcome, means.Kind == locking.NotKept:
		setTrailer(ctx, -1)
	case means.RetryAfter > 0 && means.Kind != locking.Deadline:
		setTrailer(ctx, means.RetryAfter.Milliseconds())
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(means.RetryAfter)})
	}
	answered := status.New(given.code, given.text)
	if detailed, failed := answered.WithDetails(details...); failed == nil {
		answered = detailed
	}
	return &statusError{answered, err}
}

// setTrailer tells the client when it may retry; a negative ms forbids it. It does nothing if ctx is not the context of
// a call, as in a test.
func setTrailer(ctx context.Context, ms int64) {
	_ = grpc.SetTrailer(ctx, metadata.Pairs(pushback, strconv.FormatInt(ms, 10)))
}

// ownStatus returns the status of a key function's error, or nil. OK does not count: the call was not served.
func ownStatus(kind locking.Kind, err error) *status.Status {
	var (
		key *guard.KeyError
		own interface {
			error
			GRPCStatus() *status.Status
		}
	)
	if kind == locking.KeyFailed && errors.As(err, &key) && errors.As(key.Err, &own) && own.GRPCStatus().Code() != codes.OK {
		return own.GRPCStatus()
	}
	return nil
}

// statusError is a status with guard's error in it, for outer interceptors.
type statusError struct {
	status *status.Status
	err    error
}

func (e *statusError) Error() string              { return e.err.Error() }
func (e *statusError) Unwrap() error              { return e.err }
func (e *statusError) GRPCStatus() *status.Status { return e.status }
