package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
)

// The attributes. Name, outcome and error type are on metrics, too.
const (
	attrName      attribute.Key = "redlatch.lock.name"
	attrOutcome   attribute.Key = "redlatch.lock.outcome"
	attrErrorType attribute.Key = semconv.ErrorTypeKey
	attrKey       attribute.Key = "redlatch.lock.key"
	attrKeyHash   attribute.Key = "redlatch.lock.key_hash"
	attrQueued    attribute.Key = "redlatch.lock.queued"
	attrLocal     attribute.Key = "redlatch.lock.local"
	attrHolder    attribute.Key = "redlatch.lock.holder"
	attrFence     attribute.Key = "redlatch.lock.fence"
	attrMode      attribute.Key = "redlatch.lock.mode"  // limit or shared; on metrics, too
	attrLimit     attribute.Key = "redlatch.lock.limit" // n of a Limit
)

const (
	typeOther            = "_OTHER"
	typeStoreUnavailable = "lock_store_unavailable"
	typeClosed           = "shutting_down"
	typeCanceled         = "canceled"
	typeDeadlineExceeded = "deadline_exceeded"
)

// keyHashLength is in bytes: enough to distinguish keys.
const keyHashLength = 8

// ownAttributes are those that the options ask for.
func (c *config) ownAttributes(ctx context.Context, l guard.Lock) []attribute.KeyValue {
	var out []attribute.KeyValue
	if l.Limit > 0 {
		out = append(out, attrLimit.Int(int(l.Limit)))
	}
	if c.withKey {
		out = append(out, attrKey.String(l.Key))
	}
	if c.withKeyHash {
		sum := sha256.Sum256([]byte(l.Key))
		out = append(out, attrKeyHash.String(hex.EncodeToString(sum[:keyHashLength])))
	}
	for _, fn := range c.attributes {
		out = append(out, fn(ctx, l)...)
	}
	return out
}

// errorType is the low-cardinality name of an error, "" for none.
func errorType(err error) string {
	if err == nil {
		return ""
	}
	var typed interface{ ErrorType() string }
	switch {
	case errors.As(err, &typed):
		return typed.ErrorType()
	case errors.Is(err, context.DeadlineExceeded):
		return typeDeadlineExceeded
	case errors.Is(err, context.Canceled):
		return typeCanceled
	}
	return typeOther
}

// modeOf names a lock that others may hold, too; "" is an exclusive one.
func modeOf(l guardstore.Limit) string {
	switch l {
	case guardstore.Exclusive:
		return ""
	case guardstore.Unlimited:
		return "shared"
	}
	return "limit"
}

// waitErrorType names the error of a wait. That the caller does not want the lock any
// more is none; that the caller's time was up is one.
func waitErrorType(r guard.WaitResult) string {
	switch {
	case r.Outcome != guard.OutcomeCanceled:
		return errorType(r.Err)
	case errors.Is(r.Err, context.DeadlineExceeded):
		return typeDeadlineExceeded
	}
	return ""
}
