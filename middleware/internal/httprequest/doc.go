// Package httprequest is what the HTTP adapters have in common about an *http.Request:
// the placeholders it answers, the name of its lock, and handing back what inner layers
// left in a copy of it.
package httprequest
