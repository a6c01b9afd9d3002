package redisconn_test

import (
	"context"
	"net"
	"os"
	"testing"

	"github.com/redlatch/redlatch/internal/redistest"
)

// What package net keeps of its first look-up, Go 1.25 does not share with others if that one was
// in a bubble.
func TestMain(m *testing.M) {
	_, _ = net.DefaultResolver.LookupHost(context.Background(), "localhost")
	os.Exit(redistest.Run(m))
}
