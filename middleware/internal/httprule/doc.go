// Package httprule is what the options of an HTTP adapter amount to: which lock a request
// takes and how a busy one is answered. S is what the adapter knows a request by, H is
// its hook for errors.
package httprule
