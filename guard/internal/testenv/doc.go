// Package testenv is what the tests of guard and of the packages below it share: Guards on a
// real Redis behind a proxy that loses and holds back what it is told to (Env, Redis), on
// several servers (Quorum), or in virtual time (Bubble), and the words to wait for things
// (Await, Eventually, InBackground). Only tests import it.
package testenv
