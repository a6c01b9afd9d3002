package guardgrpc

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// inOrder returns an encoded message with its fields, and those of the messages in it, in the order of their numbers.
// Otherwise two versions of a service would encode one request in two ways: each puts the fields that it does not know
// last.
func inOrder(encoded []byte, message protoreflect.MessageDescriptor) []byte {
	type field struct {
		number  protowire.Number
		encoded []byte
	}
	var fields []field
	for rest := encoded; len(rest) > 0; {
		number, kind, size := protowire.ConsumeField(rest)
		if size < 0 {
			return encoded // unknown fields of the request are no fields at all
		}
		f := field{number, rest[:size]}
		if known := message.Fields().ByNumber(number); known != nil && known.Message() != nil && kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(rest)
			value, _ := protowire.ConsumeBytes(rest[tag:])
			f.encoded = protowire.AppendBytes(slices.Clone(rest[:tag]), inOrder(value, known.Message()))
		}
		fields, rest = append(fields, f), rest[size:]
	}
	slices.SortStableFunc(fields, func(a, b field) int { return cmp.Compare(a.number, b.number) })
	ordered := make([]byte, 0, len(encoded))
	for _, f := range fields {
		ordered = append(ordered, f.encoded...)
	}
	return ordered
}
