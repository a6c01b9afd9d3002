// Package testenv is what the tests of guard and of the packages below it share: Guards on a
// real Redis with a proxy in front that loses and holds back what a test asks for (Env, Redis), on
// several servers (Quorum), or in virtual time (Bubble), a store that answers as a test says (Script), a store in
// memory whose calls fail, or hang, as a test says (Faulty), and the words to wait for things
// (Await, Eventually, InBackground). Only tests import it.
package testenv
