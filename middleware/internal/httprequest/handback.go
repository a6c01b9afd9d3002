package httprequest

import "net/http"

// HandBack copies what inner layers left in inner, a shallow copy of outer, to outer:
// the pattern, which outer layers label their telemetry with, and the parsed form, whose
// temporary files the server deletes only where it finds them in its own request.
func HandBack(outer, inner *http.Request) {
	outer.Pattern = inner.Pattern
	if outer.MultipartForm == nil {
		outer.MultipartForm = inner.MultipartForm
	}
}
