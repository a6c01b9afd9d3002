// Package taskrule is what the adapters for tasks, jobs and messages do alike: a Rule and how a
// task is worked on under it, what becomes of a task whose lock stays busy, and tables of rules
// by the names of kinds. T is what an adapter knows a task by.
package taskrule
