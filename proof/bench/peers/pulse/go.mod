module tenure.peers/pulse

go 1.25.0

require (
	github.com/redis/go-redis/v9 v9.18.0
	goa.design/pulse v1.6.5
)
