// Package httplock is the machinery of the HTTP adapters: how a request is served under the locks of a
// guardhttp.Rule. It reads keys from an *http.Request that is as http.ServeMux hands it out, stands between a handler
// and its client, and has the answer to each error of guard. An adapter hands its framework's request
// out so, and puts the Answer in front of its framework's writer.
package httplock
