package keyformat_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/keyformat"
)

// Names that are made of values are many, and each name is a metric of its own.
func TestFormats_OnlySoManyFormatsBecomeNames(t *testing.T) {
	var formats keyformat.Names
	for i := range keyformat.MaxNames {
		format := fmt.Sprintf("tenant%d:%%d", i)
		require.Equal(t, fmt.Sprintf("tenant%d:*", i), formats.Name(format))
	}
	assert.Empty(t, formats.Name("one-more:%d"))
	assert.Equal(t, "tenant0:*", formats.Name("tenant0:%d"))
	assert.Equal(t, "tenant255:*", formats.Name("tenant255:%d"))
}

func TestFormats_AVerbIsAStar(t *testing.T) {
	var formats keyformat.Names
	for format, want := range map[string]string{
		"order:%d": "order:*", "t:%s:o:%05d": "t:*:o:*", "%+.2f%%:%[1]v": "*%:*", "o:%*d": "o:*", "100%%": "",
	} {
		assert.Equal(t, want, formats.Name(format), format)
	}
}

func TestFormats_ATextWithoutAVerbIsNoName(t *testing.T) {
	var formats keyformat.Names
	for i := range 2 * keyformat.MaxNames {
		assert.Empty(t, formats.Name(""))
		assert.Empty(t, formats.Name(fmt.Sprintf("order:%d", i)))
	}
	assert.Equal(t, "order:*", formats.Name("order:%d"), "they take no room")
}

func TestFormats_AreCountedOnceByMany(t *testing.T) {
	var formats keyformat.Names
	var named atomic.Int64
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for i := range 2 * keyformat.MaxNames {
				if formats.Name(fmt.Sprintf("tenant%d:%%d", i)) != "" {
					named.Add(1)
				}
			}
		})
	}
	callers.Wait()
	assert.EqualValues(t, 4*keyformat.MaxNames, named.Load())
}
