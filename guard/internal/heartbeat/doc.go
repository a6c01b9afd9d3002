// Package heartbeat writes the name of this process to the store every 20 s, for people that look
// at the holders of a key.
//
// Touch is called while a lock is held or wanted. It never waits for the store. No decision
// depends on what it writes, so a write may fail.
package heartbeat
