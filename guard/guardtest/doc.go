// Package guardtest helps test code that uses package guard, without a Redis server.
//
// NewGuard gives a Guard on a Store in memory, whose time is that of package time: in a
// testing/synctest bubble ttls and waits pass exactly, and at once. New and NewRedis
// give an embedded Redis, Start serves one to programs. Store's Drop takes a lock away
// and its Fail makes an outage. Recorder is an Observer that remembers. TestStore is the
// contract of guardstore.Store as a test suite.
package guardtest
