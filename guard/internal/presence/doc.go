// Package presence writes to the store, every now and then, who this process is: for people
// who look at who holds a key.
//
// Touch is called while a lock is held or wanted. It never waits for the store, and it does no
// harm that a name does not get through. Nobody goes by what is written.
package presence
