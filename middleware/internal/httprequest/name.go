package httprequest

import "net/http"

// Name is the lock's name for a method and the path pattern of a route, which is "" for
// a request without a route. It has few values whatever clients send.
func Name(method, route string) string {
	name := knownMethod(method)
	if route == "" {
		return name
	}
	return name + " " + route
}

func knownMethod(method string) string {
	switch method {
	case "":
		return http.MethodGet
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "_OTHER"
}
