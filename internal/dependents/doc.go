// Package dependents knows what becomes of the go.mod of a program that imports guard. It has tests only.
package dependents
