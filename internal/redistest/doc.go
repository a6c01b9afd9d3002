// Package redistest runs real redis-server processes for tests, and breaks the
// network between them and their clients on purpose.
//
// [Start] gives a test a server of its own, which it may pause, kill and
// restart. [Shared] gives all tests of a package one server that no test may
// break. [NewProxy] stands between a client and a server and loses replies,
// delays requests, cuts connections or falls silent.
//
// A package that uses any of this has
//
//	func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }
//
// which also fails the package when a goroutine or a lock is left.
package redistest
