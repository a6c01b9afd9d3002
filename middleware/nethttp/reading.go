package guardhttp

import (
	"net/url"
	"path"
	"strings"
)

// isPlain says whether all routers read the path of u alike.
func isPlain(u *url.URL) bool {
	return u.RawPath == "" && !strings.Contains(u.Path, "//") && !strings.Contains(u.Path, "/.")
}

// readings gives u as routers may read it, spelled such that a ServeMux reads it so, too.
// Some (chi, echo, ServeMux) split what stands in the request, so that an encoded slash
// is part of a segment, and some (gin, gorilla/mux) what is decoded. To some, "." and ".."
// are segments as good as any, and others clean the path.
func readings(u *url.URL) []*url.URL {
	var all []*url.URL
	add := func(spelled string) {
		decoded, err := url.PathUnescape(spelled)
		if err != nil || !strings.HasPrefix(spelled, "/") {
			return
		}
		reading := *u
		reading.Path, reading.RawPath = decoded, spelled
		all = append(all, &reading)
	}
	for _, segments := range [][]string{rawSegments(u), strings.Split(u.Path, "/")} {
		literal := make([]string, len(segments))
		cleanable := make([]string, len(segments))
		for i, segment := range segments {
			cleanable[i] = url.PathEscape(segment)
			literal[i] = cleanable[i]
			if segment == "." || segment == ".." {
				literal[i] = strings.Repeat("%2E", len(segment))
			}
		}
		add(strings.Join(literal, "/"))
		add(cleanPath(strings.Join(cleanable, "/")))
	}
	return all
}

// rawSegments gives the decoded segments of the path as it stands in the request.
func rawSegments(u *url.URL) []string {
	raw := u.RawPath
	if raw == "" {
		raw = u.EscapedPath()
	}
	segments := strings.Split(raw, "/")
	for i, segment := range segments {
		if decoded, err := url.PathUnescape(segment); err == nil {
			segments[i] = decoded
		}
	}
	return segments
}

func cleanPath(p string) string {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}
