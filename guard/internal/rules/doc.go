// Package rules has no code, but a test for each rule of a Guard's holds: on a store that answers
// as the test says, and in the time of a bubble. It needs no server and compiles little, so that
// make mutants tries it first.
package rules
