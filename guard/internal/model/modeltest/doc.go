// Package modeltest is the driver of the models. It searches every state of a model, breadth first, and
// prints the shortest way to a state that must not be; it breaks the model's rules one by one; and it
// has what a replay needs: a Redis with the scripts, what a call finds there and what it leaves, and a store in
// memory that notes the owners that were notified.
//
// A model brings its state, its steps, its rules, and the calls that it speaks of.
//
// The bounds are small; with -short, the replay makes fewer calls. With -large a search takes minutes, and some gigabytes.
package modeltest
