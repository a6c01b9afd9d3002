// Package guardtest helps test code that uses package guard, without a Redis server.
//
// NewGuard gives a Guard on a Store in memory, whose time is that of package time: in a
// testing/synctest bubble ttls and waits pass exactly, and at once. StoreOf gives its Store:
// Drop takes a lock away and Fail makes an outage. New and NewRedis give an embedded Redis,
// Start serves one to programs. Recorder is an Observer that remembers. TestStore is the
// contract of guardstore.Store as a test suite.
//
// Two rules for bubbles. A Guard is made, used and closed on one side of a bubble's wall: on
// the other one its methods return an OptionError. And a real client, or the embedded Redis,
// does not work inside of one: guard.New and Start refuse that, NewGuard is what works.
package guardtest
