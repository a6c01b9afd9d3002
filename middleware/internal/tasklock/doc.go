// Package tasklock is what the adapters for tasks, jobs and messages have in common: the Task that a Rule sees, the
// placeholders of key templates, and how a task is worked on under a Rule. An adapter makes a Task of what its queue
// delivers, and says what a busy lock means there.
package tasklock
