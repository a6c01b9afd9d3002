package httprequest

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
)

var errHost = keytemplate.Invalid("not a host")

// host gives the one spelling of the host of r: a client must not get several locks for one
// host. What could be another spelling of something, and is not known to be, is an error.
func host(r *http.Request) (string, error) {
	name, isAddress, err := withoutPort(r.Host)
	if err != nil || name == "" {
		return "", err
	}
	if isAddress {
		return address(name)
	}
	if !isHostName(name) {
		return "", errHost
	}
	name = strings.ToLower(strings.TrimRight(name, "."))
	if isNumber(name[strings.LastIndexByte(name, '.')+1:]) {
		// No name of a host ends so, but there are many ways to write an IPv4 address:
		// 127.1 is one. Only the usual one is taken.
		return address(name)
	}
	return name, nil
}

// withoutPort takes a port off a host, whatever the port is, and the brackets off an IPv6
// address.
func withoutPort(host string) (name string, isAddress bool, err error) {
	rest, isAddress := strings.CutPrefix(host, "[")
	end := "]"
	if !isAddress {
		end = ":"
	}
	name, port, found := strings.Cut(rest, end)
	if isAddress {
		if !found {
			return "", false, errHost
		}
		if port, found = strings.CutPrefix(port, ":"); !found && port != "" {
			return "", false, errHost
		}
	}
	if strings.Trim(port, "0123456789") != "" {
		return "", false, errHost
	}
	return name, isAddress, nil
}

// address gives the one spelling of an IP address. A zone is of the client's machine, and
// says nothing here.
func address(text string) (string, error) {
	parsed, err := netip.ParseAddr(text)
	if err != nil || parsed.Zone() != "" {
		return "", errHost
	}
	return parsed.Unmap().String(), nil
}

func isNumber(label string) bool {
	digits, set := label, "0123456789"
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		digits, set = hex, "0123456789abcdef"
	}
	return label != "" && strings.Trim(digits, set) == ""
}

// isHostName allows what names of hosts are made of. Beyond ASCII, a name has a second
// spelling (xn--), and so has an escape.
func isHostName(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}
