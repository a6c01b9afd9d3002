package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
)

// readFrame reads one RESP2 or RESP3 value, or one inline command, and returns
// its bytes.
func readFrame(r *bufio.Reader) ([]byte, error) {
	return appendFrame(nil, r)
}

func appendFrame(dst []byte, r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	dst = append(dst, line...)
	children := 0
	switch line[0] {
	case '$', '!', '=':
		return appendBlob(dst, r, line)
	case '*', '~', '>':
		children, err = frameSize(line)
	case '%':
		children, err = frameSize(line)
		children *= 2
	case '|':
		// An attribute comes before the value that it describes.
		children, err = frameSize(line)
		children = 2*children + 1
	}
	for ; err == nil && children > 0; children-- {
		dst, err = appendFrame(dst, r)
	}
	return dst, err
}

// appendBlob reads what follows the line with a string's length.
func appendBlob(dst []byte, r *bufio.Reader, line []byte) ([]byte, error) {
	n, err := frameSize(line)
	if err != nil || n < 0 {
		return dst, err
	}
	for n += len("\r\n"); n > 0; {
		// In pieces, so that a wrong length costs no more than what arrives.
		if _, err := r.Peek(1); err != nil {
			return nil, err
		}
		piece, _ := r.Peek(min(n, r.Buffered()))
		dst = append(dst, piece...)
		n -= len(piece)
		if _, err := r.Discard(len(piece)); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// frameSize is the number in a line such as "*3\r\n"; -1 is a null.
func frameSize(line []byte) (int, error) {
	n, err := strconv.Atoi(string(bytes.TrimRight(line[1:], "\r\n")))
	if err != nil {
		return 0, fmt.Errorf("redistest: malformed RESP size %q", line)
	}
	return n, nil
}

// firstWord is the lower-case first element of an array of bulk strings: the
// name of a command, or the kind of a Pub/Sub message. It is empty for others.
func firstWord(frame []byte) string {
	head, rest, _ := bytes.Cut(frame, []byte("\r\n"))
	if len(head) == 0 || head[0] != '*' && head[0] != '>' {
		return ""
	}
	size, rest, _ := bytes.Cut(rest, []byte("\r\n"))
	if len(size) == 0 || size[0] != '$' {
		return ""
	}
	word, _, _ := bytes.Cut(rest, []byte("\r\n"))
	return string(bytes.ToLower(word))
}
