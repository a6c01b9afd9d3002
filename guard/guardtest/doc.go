// Package guardtest helps test code that uses package guard, without a Redis server.
//
// NewMemoryGuard gives a Guard on a Store in memory, whose time is that of package time: in a
// testing/synctest bubble ttls and waits pass exactly, and at once. StoreOf gives its Store:
// Drop takes a lock away and Fail makes an outage. NewRedisGuard and NewRedis give an embedded Redis,
// Start serves one to programs. Recorder is an Observer that remembers. TestStore is the
// contract of guardstore.Store as a test suite.
//
// Two rules for bubbles. Use and close a Guard in the bubble in which it was made, or outside
// of bubbles if it was made outside: elsewhere, its methods return an OptionError. And inside
// of a bubble use NewMemoryGuard: a real client and the embedded Redis do not work there, so
// guard.New and Start refuse.
package guardtest
