package redisconn

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kept are the options of go-redis that are the client's, and replaced those that a conn has of its own.
var (
	kept = strings.Fields(`Network Addr NodeAddress ClientName OnConnect Protocol Username Password CredentialsProvider
		CredentialsProviderContext StreamingCredentialsProvider DB MinRetryBackoff MaxRetryBackoff DialerRetryTimeout DialerRetryBackoff
		ReadBufferSize WriteBufferSize PipelineReadBufferSize PipelineWriteBufferSize PoolFIFO ConnMaxIdleTime ConnMaxLifetime
		ConnMaxLifetimeJitter TLSConfig DisableIndentity DisableIdentity IdentitySuffix UnstableResp3 FailingTimeoutSeconds
		ClientSideCacheStrategy ClientSideCacheRefreshOnInvalidate ClientSideCacheCoalesceMisses ClientSideCacheInvalidationBatchWindow`)
	replaced = strings.Fields(`Dialer DialerRetries ContextTimeoutEnabled MaxRetries DialTimeout ReadTimeout WriteTimeout PoolTimeout
		MinIdleConns MaxActiveConns PoolSize MaxIdleConns MaxConcurrentDials Limiter PushNotificationProcessor MaintNotificationsConfig`)
)

// An option that a new version of go-redis has is noticed: it may have commands sent twice, or cached.
func TestOptions_EveryOptionOfGoRedisIsKnown(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[redis.Options]()) {
		_, newer := newerOptions[field.Name]
		known := newer || slices.Contains(kept, field.Name) || slices.Contains(replaced, field.Name)
		assert.True(t, known || !field.IsExported(), "is %s the client's, or a conn's own?", field.Name)
	}
}

// The options that not every go-redis has are a conn's own where it has them.
func TestOptions_OfNewerVersionsAreSet(t *testing.T) {
	for name, value := range newerOptions {
		var o redis.Options
		field := reflect.ValueOf(&o).Elem().FieldByName(name)
		if !field.IsValid() {
			continue // an older go-redis
		}
		switch field.Kind() {
		case reflect.Int:
			field.SetInt(7)
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		default:
			require.Equal(t, reflect.Interface, field.Kind(), name)
		}
		setNewerOptions(&o)
		if value == nil {
			assert.True(t, field.IsZero(), name)
		} else {
			assert.EqualValues(t, value, field.Interface(), name)
		}
	}
}
