package keyformat_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/internal/keyformat"
)

func TestFormats_AVerbIsAStar(t *testing.T) {
	var formats keyformat.Names
	for format, want := range map[string]string{
		"order:%d": "order:*", "t:%s:o:%05d": "t:*:o:*", "%+.2f%%:%[1]v": "*%:*", "o:%*d": "o:*", "100%%": "",
	} {
		assert.Equal(t, want, formats.Name(format), format)
	}
}

// Names that are made of values are many, and each name is a metric of its own. Texts without a verb take no room.
func TestFormats_OnlySoManyFormatsBecomeNames(t *testing.T) {
	var formats keyformat.Names
	var named atomic.Int64
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for i := range 2 * keyformat.MaxNames {
				assert.Empty(t, formats.Name(fmt.Sprintf("order:%d", i)))
				if name := formats.Name(fmt.Sprintf("tenant%d:%%d", i)); name != "" {
					named.Add(1)
					assert.Equal(t, fmt.Sprintf("tenant%d:*", i), name)
				}
			}
		})
	}
	callers.Wait()
	assert.EqualValues(t, 4*keyformat.MaxNames, named.Load())
}
