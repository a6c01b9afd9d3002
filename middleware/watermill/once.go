package guardwatermill

import (
	"encoding/json"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/redlatch/redlatch/guard"
)

// made is a message that a handler returned, as a record has it.
type made struct {
	UUID     string
	Metadata message.Metadata
	Payload  []byte
}

// encoding writes the messages that a handler returned, and reads them again. Watermill publishes them after
// the record is written: if that fails, the next delivery has to publish them.
func encoding(produced *[]*message.Message) guard.OnceOption {
	return guard.Encoding(
		func(any) ([]byte, error) {
			if len(*produced) == 0 {
				return nil, nil
			}
			all := make([]made, len(*produced))
			for i, msg := range *produced {
				all[i] = made{msg.UUID, msg.Metadata, msg.Payload}
			}
			return json.Marshal(all)
		},
		func(kept []byte, _ any) error {
			var all []made
			if len(kept) > 0 {
				if err := json.Unmarshal(kept, &all); err != nil {
					return err
				}
			}
			for _, m := range all {
				msg := message.NewMessage(m.UUID, m.Payload)
				msg.Metadata = m.Metadata
				*produced = append(*produced, msg)
			}
			return nil
		})
}
