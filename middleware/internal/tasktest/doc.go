// Package tasktest is the suite that every adapter for tasks, jobs and messages passes, on a queue of
// its framework and a real Redis. It is for tests only.
package tasktest
