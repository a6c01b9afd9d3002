// Package locking is what all adapters have in common, whatever they adapt to: key templates, the Rule of
// a route, a method or a kind of task, how it runs work under its locks, and what an error
// of guard means. An adapter adds the placeholders of its key templates, and a table from a
// Kind to what its protocol answers.
package locking
