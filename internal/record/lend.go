package record

const (
	// lendMost is how many bytes of Redis results that are in the bucket, too, and events take
	// of one tenant: what has the shortest time left goes first.
	lendMost = 128 << 20
	// lendCost is what one of them takes besides.
	lendCost = 512
)
