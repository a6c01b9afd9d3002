package redisconn

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
)

// fill sets each field of options to a value of its own, where its kind has some.
func fill(options any) {
	v := reflect.ValueOf(options).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case !f.CanSet():
		case f.Kind() == reflect.String:
			f.SetString(v.Type().Field(i).Name)
		case f.CanInt():
			f.SetInt(int64(1000 + i))
		case f.Kind() == reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case f.Kind() == reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case f.Kind() == reflect.Func:
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { panic("not called") }))
		}
	}
}

// The user's options say where a client leads, and who asks. All others are the Guard's, or go-redis's defaults.
func TestOptions_OfTheUserHold(t *testing.T) {
	t.Parallel()
	const (
		both    = "TLSConfig OnConnect Protocol Username Password CredentialsProvider CredentialsProviderContext StreamingCredentialsProvider ClientName IdentitySuffix ReadBufferSize WriteBufferSize PoolSize ConnMaxIdleTime ConnMaxLifetime DialTimeout"
		single  = both + " Network Addr Dialer DB"
		cluster = both + " Addrs NewClient ClusterSlots MaxRedirects FailingTimeoutSeconds"
	)
	own := map[string]any{
		"MaxRetries": -1, "DialerRetries": 1, "ContextTimeoutEnabled": true, "MaxIdleConns": 3,
		"ReadTimeout": time.Second, "WriteTimeout": time.Second, "PoolTimeout": time.Second,
		"MaintNotificationsConfig": &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	o := &Options{AttemptTimeout: time.Second}
	one, many := &redis.Options{}, &redis.ClusterOptions{}
	fill(one)
	fill(many)
	provider := &struct {
		auth.StreamingCredentialsProvider
	}{}
	one.StreamingCredentialsProvider, many.StreamingCredentialsProvider = provider, provider
	for fields, options := range map[string][2]any{single: {one, o.single(one, 3)}, cluster: {many, o.cluster(many, 3)}} {
		user, got := reflect.ValueOf(options[0]).Elem(), reflect.ValueOf(options[1]).Elem()
		holds := strings.Fields(fields)
		for i := range got.NumField() {
			name, value := got.Type().Field(i).Name, got.Field(i)
			switch want, is := own[name]; {
			case is:
				assert.Equal(t, want, value.Interface(), name)
			case !got.Type().Field(i).IsExported():
			case name == "Dialer" && fields == cluster: // see heeding
				assert.False(t, value.IsNil())
			case !slices.Contains(holds, name):
				assert.True(t, value.IsZero(), name)
			case value.Kind() == reflect.Func:
				assert.Equal(t, user.Field(i).Pointer(), value.Pointer(), name)
			default:
				assert.Equal(t, user.Field(i).Interface(), value.Interface(), name)
			}
		}
	}
	assert.Equal(t, inFlight, o.single(&redis.Options{}, 1).PoolSize)
	assert.Equal(t, inFlight, o.cluster(&redis.ClusterOptions{}, 1).PoolSize)
	for _, user := range []redis.Options{{DisableIdentity: true}, {DisableIndentity: true}} {
		assert.True(t, o.single(&user, 1).DisableIdentity)
	}
	for _, user := range []redis.ClusterOptions{{DisableIdentity: true}, {DisableIndentity: true}} {
		assert.True(t, o.cluster(&user, 1).DisableIdentity)
	}
}

// go-redis's cluster client finds the node by the first key, which it takes as a string.
func TestPack_TheFirstKeyIsAString(t *testing.T) {
	t.Parallel()
	cmd := NewScript("return 1").With([]string{"first", "second"}, "argument")
	assert.Equal(t, "first", pack(t.Context(), []*Command{&cmd}, false).Args()[firstKey])
}
