module leafd.io/leafd/bench

go 1.21

require (
	github.com/bwmarrin/snowflake v0.3.0
	github.com/google/uuid v1.6.0
	leafd.io/leafd v0.0.0
)

replace leafd.io/leafd => ../
