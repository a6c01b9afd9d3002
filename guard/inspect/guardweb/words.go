package guardweb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/inspect/internal/meter"
)

// replies are errors of Redis, by their texts. The texts may name keys, and are not shown.
var replies = []struct{ says, words string }{
	{"NOAUTH", "Redis does not accept the user or the password of this process."},
	{"WRONGPASS", "Redis does not accept the user or the password of this process."},
	{"NOPERM", "The Redis user of this process lacks a right that this page needs (ACL)."},
	{"LOADING", "Redis has just started and is loading its data."},
	{"READONLY", "This Redis is a replica: a hold can be ended on its primary only."},
	{"MASTERDOWN", "This Redis is a replica that has lost its primary."},
	{"CLUSTERDOWN", "The Redis Cluster is down: some of its slots have no primary."},
	{"OOM", "Redis has no memory left."},
	{"MISCONF", "Redis takes no writes, because it cannot save its data."},
	{"BUSY", "Redis is busy with a script that does not end."},
	{"max number of clients", "Redis has as many clients as it accepts (maxclients)."},
}

// words returns the cause of an error in words for an operator.
func words(err error) string {
	var format *inspect.FormatError
	switch {
	case errors.As(err, &format):
		return "What Redis has under this key is not a lock: " + format.Reason + "."
	case errors.Is(err, inspect.ErrInProgress):
		return "The work of this record is in progress. To end it, revoke its holder."
	case errors.Is(err, guard.ErrKey):
		return "key must be UTF-8 of 1 to 512 bytes."
	case !errors.Is(err, guard.ErrStore) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled):
		return err.Error()
	}
	text, replied := meter.Reply(err)
	if !replied {
		return unreachable(err)
	}
	for _, reply := range replies {
		if strings.Contains(text, reply.says) {
			return reply.words
		}
	}
	code, _, _ := strings.Cut(text, " ")
	return "Redis refuses to answer (" + code + ")."
}

// unreachable returns why a process cannot reach its Redis.
func unreachable(err error) string {
	var (
		timeout net.Error
		name    *net.DNSError
		record  tls.RecordHeaderError
		cert    *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &name):
		return "The name of the Redis host is not known."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "Nothing listens at that address: Redis is down, or the address is wrong."
	case errors.As(err, &record), errors.As(err, &cert), errors.As(err, &unknown):
		return "The TLS handshake with Redis failed."
	case errors.Is(err, context.Canceled):
		return "The request ended before Redis answered."
	case errors.As(err, &timeout) && timeout.Timeout():
		return "Redis did not answer in time."
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "Redis closed the connection."
	case strings.Contains(err.Error(), "pool timeout"):
		return "All connections of this process to Redis are in use."
	}
	return "Redis cannot be reached."
}
