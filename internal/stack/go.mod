module github.com/redlatch/redlatch/internal/stack

go 1.26.0

require (
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/hibiken/asynq v0.26.0
	github.com/labstack/echo/v4 v4.16.0
	github.com/labstack/echo/v5 v5.3.1
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redlatch/redlatch v0.0.0
	github.com/redlatch/redlatch/middleware/asynq v0.0.0
	github.com/redlatch/redlatch/middleware/cron v0.0.0
	github.com/redlatch/redlatch/middleware/echo v0.0.0
	github.com/redlatch/redlatch/middleware/echov5 v0.0.0
	github.com/redlatch/redlatch/middleware/gocron v0.0.0
	github.com/redlatch/redlatch/tracing v0.0.0
	github.com/robfig/cron/v3 v3.0.1
	go.opentelemetry.io/otel/sdk v1.47.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/labstack/gommon v0.5.0 // indirect
	github.com/mattn/go-colorable v0.1.15 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/spf13/cast v1.10.0 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/valyala/fasttemplate v1.2.2 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel v1.47.0 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	go.opentelemetry.io/otel/trace v1.47.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/net v0.59.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace (
	github.com/redlatch/redlatch => ../..
	github.com/redlatch/redlatch/middleware/asynq => ../../middleware/asynq
	github.com/redlatch/redlatch/middleware/cron => ../../middleware/cron
	github.com/redlatch/redlatch/middleware/echo => ../../middleware/echo
	github.com/redlatch/redlatch/middleware/echov5 => ../../middleware/echov5
	github.com/redlatch/redlatch/middleware/gocron => ../../middleware/gocron
	github.com/redlatch/redlatch/tracing => ../../tracing
)
