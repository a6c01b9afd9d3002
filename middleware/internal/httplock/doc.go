// Package httplock serves a request under the locks of a guardhttp.Rule, for all HTTP adapters. It reads keys from an
// *http.Request with the pattern and the path values that http.ServeMux would set, holds a handler's answer back, and
// answers each error of guard. An adapter makes such a request of its framework's, and puts the Answer in front of its
// framework's writer.
package httplock
