module leafd.io/leafd

go 1.21
