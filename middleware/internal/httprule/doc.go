// Package httprule is what the HTTP adapters do alike: a Rule and how requests are served
// under it, the tables of routers that list their routes, and the answer to a lost lock. S
// is what an adapter knows a request by, H is its hook for errors.
package httprule
