// Package gate lets work in until it is told not to, and knows when nobody is inside any more.
//
// A [Gate] closes in two steps: once it drains, only work that belongs to work inside gets in;
// once it is closed, nobody does. Work that is inside goes on, and listens for its stop.
//
// It relies on package task's word for a closed channel. It never ends anything, starts no
// goroutine, and does not know what the work is.
package gate
