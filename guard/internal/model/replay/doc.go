// Package replay is where tests of models make the calls that a model speaks of: a Redis with
// the scripts, what it is to hold before a call, and what it holds after it; or a store in memory,
// and who it tells.
package replay
