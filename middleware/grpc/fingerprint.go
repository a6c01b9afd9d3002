package guardgrpc

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// inOrder sorts the fields of an encoded message, and of the messages in it, by their numbers. A version of a service
// puts the fields that it does not know last, so two versions would encode the same request differently.
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
