package guardgrpc

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/redlatch/redlatch/middleware/internal/locking"
)

var adapter = &locking.Adapter[call]{Name: "guardgrpc", Callers: []string{"metadata"}, Grammar: locking.Grammar[call]{
	Kinds: map[string]locking.Bind[call]{"metadata": bindMetadata},
	Bare:  bindField,
}}

var metadataName = regexp.MustCompile(`^[0-9A-Za-z_.-]+$`)

func bindMetadata(name string) (locking.Extract[call], error) {
	if !metadataName.MatchString(name) {
		return nil, fmt.Errorf("%q is not the name of metadata", name)
	}
	return func(c call) (string, error) { return locking.Single(metadata.ValueFromIncomingContext(c.ctx, name)) }, nil
}

var errStream = errors.New("a stream has no request message when it begins: write {metadata:name}, or LockFunc")

func bindField(name string) (locking.Extract[call], error) {
	for part := range strings.SplitSeq(name, ".") {
		if !protoreflect.Name(part).IsValid() {
			return nil, fmt.Errorf("%q is not the name of a field", name)
		}
	}
	return func(c call) (string, error) {
		switch req := c.req.(type) {
		case nil:
			return "", locking.Unfit(errStream.Error())
		case proto.Message:
			return readField(req.ProtoReflect(), name)
		}
		return "", locking.Unfit("the request is no protocol buffer: write LockFunc")
	}, nil
}

// readField returns the value of a field, or "" if it is not set.
func readField(m protoreflect.Message, name string) (string, error) {
	path, err := fieldsOf(m.Descriptor(), name)
	if err != nil {
		return "", locking.Unfit(err.Error())
	}
	for _, field := range path[:len(path)-1] {
		m = m.Get(field).Message() // empty if it is not set
	}
	last := path[len(path)-1]
	if !m.Has(last) {
		return "", nil
	}
	return m.Get(last).String(), nil
}

// fieldsOf returns the fields on the path name, or an error if no such message has a value there.
func fieldsOf(message protoreflect.MessageDescriptor, name string) (path []protoreflect.FieldDescriptor, err error) {
	for part := range strings.SplitSeq(name, ".") {
		if message == nil {
			return nil, fmt.Errorf("field %s is no message", path[len(path)-1].FullName())
		}
		field := message.Fields().ByName(protoreflect.Name(part))
		if field == nil {
			return nil, fmt.Errorf("message %s has no field %s", message.FullName(), part)
		}
		if field.Cardinality() == protoreflect.Repeated {
			return nil, fmt.Errorf("field %s is repeated", field.FullName())
		}
		path, message = append(path, field), field.Message()
	}
	switch last := path[len(path)-1]; last.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind, protoreflect.BytesKind, protoreflect.BoolKind,
		protoreflect.FloatKind, protoreflect.DoubleKind:
		return nil, fmt.Errorf("field %s is no string, integer or enum", last.FullName())
	}
	return path, nil
}

// inputOf returns the request message of a method, or nil if its .proto file is not linked in.
func inputOf(service, method string) protoreflect.MessageDescriptor {
	found, _ := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if described, ok := found.(protoreflect.ServiceDescriptor); ok {
		if m := described.Methods().ByName(protoreflect.Name(method)); m != nil {
			return m.Input()
		}
	}
	return nil
}
