package redisacl

// Access is what a role may do with a key: read it, write it, or both. Commands that only
// count (ZCARD, HLEN, EXISTS) need either.
type Access string

// The kinds of access.
const (
	None      Access = ""
	Read      Access = "R"
	Write     Access = "W"
	ReadWrite Access = "RW"
)

// Key is a kind of key and what each role does with it.
type Key struct {
	// Pattern is a glob of Redis's. A tenant's name has neither } nor :, so the part in
	// braces can't swallow anything else.
	Pattern string
	// API includes the deliverer and the sweeper, which run in the same process.
	API, Worker Access
	Why         string
}

// keys are all keys that Glovebox uses, its own and asynq's. What is not here is refused
// to everybody: whoever adds a key adds it here, with no more than each role needs. A script counts as
// its caller, and each key that it is given as one that is read and written.
var keys = []Key{
	// Of a tenant. A worker serves all tenants, so it has what it needs of each of them. Redis
	// tries the patterns in their order: first are those that an accepted job uses, most of all.
	{"gb:{*}:job:*", ReadWrite, ReadWrite, "records: a worker starts and ends jobs, and reads those whose artifacts are inputs"},
	{"gb:{*}:open", ReadWrite, ReadWrite, "released jobs: a worker takes one out, and the end of one releases the next"},
	{"gb:{*}:backlog:*", ReadWrite, ReadWrite, "the next ones"},
	{"gb:{*}:recorded", ReadWrite, ReadWrite, "bytes that records take: a start and an end change them"},
	{"gb:{*}:queued", ReadWrite, ReadWrite, "bytes that are queued: a start counts down"},
	{"gb:{*}:lasting", ReadWrite, Read, "idempotency keys that last, which a quota counts"},
	{"gb:{*}:outbox", ReadWrite, Write, "deliveries to make: an end adds one"},
	{"gb:{*}:later", ReadWrite, Write, "jobs of later: a start takes one out"},
	{"gb:{*}:running", ReadWrite, ReadWrite, "who runs what"},
	{"gb:{*}:jobs", ReadWrite, None, "what lists jobs"},
	{"gb:{*}:line", ReadWrite, ReadWrite, "the order of the next ones"},
	{"gb:{*}:", ReadWrite, ReadWrite, "no key, but what scripts are given to make the others from"},
	{"gb:{*}:result:*", ReadWrite, ReadWrite, "results: a worker writes them, and reads them for inputs"},
	{"gb:{*}:events:*", ReadWrite, ReadWrite, "what a watched job prints"},
	{"gb:{*}:stored", ReadWrite, ReadWrite, "bytes that are stored: an end counts up"},
	{"gb:{*}:lent", ReadWrite, ReadWrite, "results and events that are there for a while: who writes one takes back others"},
	{"gb:{*}:lent:*", ReadWrite, ReadWrite, "what they take"},
	{"gb:{*}:kept", ReadWrite, Write, "bytes of each ended job"},
	{"gb:{*}:deadline", ReadWrite, Write, "deadlines: an end takes one out"},
	{"gb:{*}:garbage", ReadWrite, Write, "when to look for objects: an end says so"},
	{"gb:{*}:delivery:*", ReadWrite, Write, "a delivery, which an end creates"},
	{"gb:{*}:batch:*", ReadWrite, ReadWrite, "batches: an end counts its job"},
	{"gb:{*}:batchwork", ReadWrite, Write, "batches in progress: the last end takes one out"},
	{"gb:{*}:tenant", ReadWrite, Read, "terms, and hashes of tokens: a worker reads running_at_once"},
	{"gb:{*}:secrets", ReadWrite, Read, "stored secrets, sealed to the workers' key"},
	{"gb:{*}:batches", ReadWrite, None, "what lists batches"},
	{"gb:{*}:tokenuse", ReadWrite, None, "when tokens were used"},
	{"gb:{*}:webhook", ReadWrite, None, "which of a tenant's webhook secrets hold"},
	{"gb:{*}:rate", ReadWrite, None, "requests of this minute"},
	{"gb:{*}:idem:*", ReadWrite, None, "idempotency keys of jobs"},
	{"gb:{*}:batchidem:*", ReadWrite, None, "idempotency keys of batches"},

	// Of everybody.
	{"gb:tenants", ReadWrite, None, "names of tenants"},
	{"gb:audit", ReadWrite, None, "the audit log"},
	{"gb:audit:jobs", ReadWrite, None, "the audit log of jobs"},
	{"gb:audit:operator", ReadWrite, None, "the audit log of what the operator did"},
	{"gb:ping", ReadWrite, None, "whether Redis takes a write"},
	{beats + "*", Read, Read, "beats, which each worker writes for itself: see User"},
	{"gb:slots", ReadWrite, ReadWrite, "how many jobs each worker runs at once"},
	{"gb:slots:total", ReadWrite, ReadWrite, "their sum, which whoever misses it counts"},
	{"gb:share", ReadWrite, Read, "how many jobs each tenant with a backlog may have in the queue: the sweeper counts"},
	{"gb:pass:*", ReadWrite, None, "which api makes a pass of the sweeper for all"},
	{"gb:runtimes", Read, ReadWrite, "what workers offer"},
	{"gb:images", Read, ReadWrite, "images that workers offer"},
	{"gb:keys", Read, ReadWrite, "public keys that workers sign with"},
	{"gb:secretkeys", Read, ReadWrite, "public keys that secrets are sealed to"},
	{"gb:bell:jobs", Write, ReadWrite, "wakes workers"},
	{"gb:bell:jobs:*", Write, ReadWrite, "wakes workers that offer a runtime or image"},
	{"gb:bell:deliveries", ReadWrite, Write, "wakes deliverers"},

	// asynq's, version 0.26.
	{"asynq:queues", ReadWrite, Write, "names of queues"},
	{"asynq:{high}:*", ReadWrite, ReadWrite, "tasks of jobs"},
	{"asynq:{normal}:*", ReadWrite, ReadWrite, "tasks of jobs"},
	{"asynq:{low}:*", ReadWrite, ReadWrite, "tasks of jobs"},
	{"asynq:{high:*}:*", ReadWrite, ReadWrite, "tasks of jobs that a worker without their runtime or image handed over"},
	{"asynq:{normal:*}:*", ReadWrite, ReadWrite, "the same"},
	{"asynq:{low:*}:*", ReadWrite, ReadWrite, "the same"},
	{"asynq:{deliveries}:t:*", ReadWrite, ReadWrite, "tasks of deliveries: an end adds one"},
	{"asynq:{deliveries}:pending", ReadWrite, ReadWrite, "those to be taken"},
	{"asynq:{deliveries}:*", ReadWrite, None, "those that are taken, or are to be taken later"},
	{"asynq:{deliveries:backlog}:t:*", ReadWrite, ReadWrite, "the same, of tenants that have many"},
	{"asynq:{deliveries:backlog}:pending", ReadWrite, ReadWrite, "the same"},
	{"asynq:{deliveries:backlog}:*", ReadWrite, None, "the same"},
	{"asynq:servers", ReadWrite, ReadWrite, "asynq's own beats"},
	{"asynq:servers:{*}", ReadWrite, ReadWrite, "asynq's own beats"},
	{"asynq:workers", ReadWrite, ReadWrite, "asynq's own beats"},
	{"asynq:workers:{*}", ReadWrite, ReadWrite, "asynq's own beats"},
}

// beats is what the keys begin with in which workers say that they live.
const beats = "gb:worker:"

// commands are those of both roles. None of them lists keys, looks at other clients or
// changes the server.
const commands = "ping select info time eval evalsha " +
	"get set setex incr incrby decrby getrange setrange strlen exists del expire expireat pexpire pexpireat pttl " +
	"hget hmget hgetall hkeys hset hsetnx hdel hincrby hlen hexists hstrlen " +
	"zadd zrem zcard zcount zscore zrange zrangebyscore zrevrange zpopmin zremrangebyscore zremrangebyrank " +
	"lpush rpush lrange llen lrem ltrim rpoplpush blpop " +
	"sadd srem smembers sismember " +
	"xadd xrange xrevrange xdel xlen"

// apiCommands are those of the api besides: pipelines need their scripts loaded, and asynq's
// inspector asks how large a queue is.
const apiCommands = "script|load memory|usage"

// channels are what each role may publish on, and subscribe to.
var channels = map[Role]struct{ publish, subscribe string }{
	API:    {"gb:done gb:cancel gb:events:*", "gb:done gb:events:* asynq:cancel"},
	Worker: {"gb:done gb:cancel gb:events:* gb:wanted:*", "gb:cancel gb:wanted:* asynq:cancel"},
}

// The role Metrics counts, without reading what is counted; it reads only who is there.
const (
	metricsCommands = "ping select info dbsize exists type strlen hlen zcard llen scard xlen memory|usage"
	metricsKeys     = "gb:* asynq:*"
	metricsReads    = "get hgetall smembers"
	metricsReadKeys = beats + "* gb:slots gb:tenants asynq:queues"
)
