// Package rules has no code, but a test for each rule of the queue in a process: on one Table, a
// store that answers as the test says, and the time of a bubble. It needs no server and compiles
// little, so that make mutants tries it first.
package rules
