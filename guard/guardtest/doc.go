// Package guardtest helps to test code that uses package guard, without a Redis server.
//
// NewMemoryGuard returns a Guard on a Store in memory. The Store uses the clock of package time: in
// a testing/synctest bubble, ttls and waits pass exactly and at once. Lose takes a lock away, Outage
// makes commands fail. NewRedisGuard and NewRedis run a Redis in the process of the test. Recorder
// is an Observer that remembers. The Observer of Order fails when locks are nested in two orders.
// Idempotent tests a route with Once.
//
// Use and close a Guard in the bubble in which it was made, or outside of bubbles if it was made
// outside: its methods return an OptionError elsewhere. In a bubble, use NewMemoryGuard: a client and
// a Redis in the process do not work there, and guard.New returns an error.
package guardtest
