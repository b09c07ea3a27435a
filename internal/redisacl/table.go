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
	// Type of Redis's, and what is in it.
	Type string
	// API includes the deliverer and the sweeper, which run in the same process.
	API, Worker Access
	Why         string
	// Life is how long it is there, or how much of it.
	Life string
}

// Keys are all kinds of keys, in the order in which Redis tries them. docs/redis.md shows them.
func Keys() []Key { return keys }

// keys are all keys that Glovebox uses, its own and asynq's. What is not here is refused
// to everybody: whoever adds a key adds it here, with no more than each role needs. A script counts as
// its caller, and each key that it is given as one that is read and written.
var keys = []Key{
	// Of a tenant. A worker serves all tenants, so it has what it needs of each of them. Redis
	// tries the patterns in their order: first are those that an accepted job uses, most of all.
	{"gb:{*}:job:*", "hash", ReadWrite, ReadWrite, "records: a worker starts and ends jobs, and reads those whose artifacts are inputs", "its retention after the job's end"},
	{"gb:{*}:open", "zset id → ms when the sweeper looks for its task", ReadWrite, ReadWrite, "released jobs: a worker takes one out, and the end of one releases the next", "an entry as long as the job is released: a window of them at most"},
	{"gb:{*}:backlog:*", "zset id → place", ReadWrite, ReadWrite, "jobs that wait for room in their tenant's window: the end of one releases the next", "an entry as long as the job waits there"},
	{"gb:{*}:windows", "hash placement, common, at_once or bound:number → jobs; bounds:placement → numbers; made → a name for the rest", ReadWrite, Read, "how many jobs with a placement the tenant may have released or running, of each and of several together: the end of one releases the next", "a minute; written where it is another, and every half minute"},
	{"gb:{*}:placed:*", "set", ReadWrite, ReadWrite, "jobs of a placement that are released or run: the end of one takes it out", "an entry until the job's end"},
	{"gb:{*}:pools", "zset placement → ms of its last job", ReadWrite, None, "placements that the tenant's jobs and sessions have", "a day after the last; 16 at most"},
	{"gb:{*}:recorded", "string", ReadWrite, ReadWrite, "bytes that records take: a start and an end change them", "a number, while it isn't 0"},
	{"gb:{*}:queued", "string", ReadWrite, ReadWrite, "bytes that are queued: a start counts down", "a number, while it isn't 0"},
	{"gb:{*}:lasting", "zset key → ms when its time is over", ReadWrite, Read, "idempotency keys and deliveries to hooks that last, and how hosts of callbacks do, which a quota counts", "as long as the last of them"},
	{"gb:{*}:lasting:deliveries", "zset delivery → ms when it is looked at again", ReadWrite, Read, "deliveries of news and tests, which a quota counts", "a day longer than the last of them"},
	{"gb:{*}:outbox", "zset delivery → ms when it is due", ReadWrite, Write, "deliveries to make: an end adds one", "an entry as long as the delivery is pending"},
	{"gb:{*}:later", "zset id → run_at, ms", ReadWrite, Write, "jobs whose run_at is to come: a start takes one out", "an entry until the time has come"},
	{"gb:{*}:approvals", "zset id → ms when it is given up", ReadWrite, Write, "jobs that wait for approval: the end of a session takes its own out", "an entry as long as the job is held"},
	{"gb:{*}:running", "hash id → epoch and worker", ReadWrite, ReadWrite, "which worker runs which job", "an entry as long as the job runs"},
	{"gb:{*}:jobs", "zset of created ms, 13 digits, and id; all scores 0", ReadWrite, None, "the list of jobs", "an entry until the job is forgotten"},
	{"gb:{*}:line", "hash", ReadWrite, ReadWrite, "the last place in the backlogs, and which priority's turn it is: of jobs without a placement, and of each placement", "for good; of a placement a day after its last job"},
	{"gb:{*}:", "none", ReadWrite, ReadWrite, "no key: scripts get it, and make the others from it", "never there"},
	{"gb:{*}:result:*", "string", ReadWrite, ReadWrite, "results: a worker writes them, and reads them for inputs", "an hour after the end, or less: see lent"},
	{"gb:{*}:input:*", "list of epoch and job.Input as JSON", ReadWrite, ReadWrite, "what an interactive job was sent while it runs", "until it ends; 256 KiB at most"},
	{"gb:{*}:events:*", "stream", ReadWrite, ReadWrite, "what a watched job prints", "until a minute after the end, or less: see lent; 1.3 MiB at most"},
	{"gb:{*}:usage:*", "hash of counts; the name has the day, counted from 1970 in UTC", ReadWrite, ReadWrite, "what jobs used that ended on a day: an end counts up; its :placed how many of each placement", "400 days; its :placed 2"},
	{"gb:{*}:stored", "string", ReadWrite, ReadWrite, "bytes that are stored: an end counts up", "a number, while it isn't 0"},
	{"gb:{*}:lent", "zset name → ms when it expires", ReadWrite, ReadWrite, "results and events that are there for a while: who writes one takes back others", "128 MiB of results and events in all"},
	{"gb:{*}:lent:*", "hash name → bytes, and their sum as a string", ReadWrite, ReadWrite, "what they take", "as lent"},
	{"gb:{*}:kept", "hash id → bytes, created ms (of an upload, 1 once it is being deleted), bytes of Redis", ReadWrite, Write, "what counts of each job that has ended", "an entry until the job, batch or upload is forgotten"},
	{"gb:{*}:deadline", "zset id → ms", ReadWrite, Write, "deadlines: an end takes one out", "an entry until the job's end"},
	{"gb:{*}:garbage", "zset id → ms when to look", ReadWrite, Write, "when to look for objects: an end says so", "an entry until the job, batch or upload is forgotten"},
	{"gb:{*}:delivery:*", "hash", ReadWrite, Write, "a delivery, which an end creates", "until its job expires; a batch's, the operator's retention after it is done"},
	{"gb:{*}:batch:*", "hash; its :items a string of 8 bytes a job, its :errors a hash", ReadWrite, ReadWrite, "batches: an end counts its job", "its retention after the batch's end"},
	{"gb:{*}:batchwork", "zset id → ms when it is given up, or canceled further", ReadWrite, Write, "batches in progress: the last end takes one out", "an entry until the batch is sealed; of one that is being canceled, until its end"},
	{"gb:{*}:runitems:*", "hash step:index → try and status", ReadWrite, ReadWrite, "jobs of a run: an end notes its job", "as the run"},
	{"gb:{*}:runwork", "zset run → ms when to look at it", ReadWrite, Write, "runs in which something has ended: an end says so", "an entry until the run's end"},
	{"gb:{*}:run:*", "hash", ReadWrite, None, "runs of pipelines", "its retention after the run's end"},
	{"gb:{*}:runs", "zset of created ms and id; all scores 0", ReadWrite, None, "the list of runs", "an entry until the run is forgotten"},
	{"gb:{*}:session:*", "hash", ReadWrite, ReadWrite, "sessions: a worker claims and ends them, and takes their executions", "its retention after the session's end"},
	{"gb:{*}:turns:*", "list", ReadWrite, ReadWrite, "a session's executions that wait", "until the session's end; 16 at most"},
	{"gb:{*}:held", "hash session → 1 and worker", ReadWrite, ReadWrite, "which worker holds which session", "an entry until the session's end"},
	{"gb:{*}:sessionwork", "zset session → ms when to look", ReadWrite, Write, "sessions that have not ended, or whose executions have not", "an entry until then"},
	{"gb:{*}:sessions", "zset of created ms and id; all scores 0", ReadWrite, None, "the list of sessions", "an entry until the session is forgotten"},
	{"gb:{*}:tenant", "hash", ReadWrite, Read, "terms, and hashes of tokens: a worker reads running_at_once", "for good"},
	{"gb:{*}:secrets", "hash name → JSON", ReadWrite, Read, "stored secrets, sealed to the workers' key", "until deleted; 64 × 45 KiB at most"},
	{"gb:{*}:batches", "zset of created ms and id; all scores 0", ReadWrite, None, "the list of batches", "an entry until the batch is forgotten"},
	{"gb:{*}:tokenuse", "hash token → ms", ReadWrite, None, "when tokens were used", "as the token"},
	{"gb:{*}:webhook", "hash", ReadWrite, None, "which generations of the tenant's webhook secret sign", "for good, from the first rotation on"},
	{"gb:{*}:endpoints", "hash id → JSON", ReadWrite, None, "endpoints", "until deleted; 32 at most"},
	{"gb:{*}:wants", "set", ReadWrite, Read, "events that some endpoint wants: an end asks for its own", "as the endpoints"},
	{"gb:{*}:lane:*", "hash; its :waiting and :flight zsets delivery → ms", ReadWrite, None, "how an endpoint does, or a callback's host; deliveries to it that wait, and those that are attempted", "an endpoint's until it is deleted, others until a success behind which nothing waits, or 2 days after the last attempt"},
	{"gb:{*}:attempts:*", "stream", ReadWrite, None, "the last attempts at an endpoint", "until it is deleted; 500 entries of 1 KB at most"},
	{"gb:{*}:failed:*", "zset delivery → ms when it failed", ReadWrite, None, "deliveries to an endpoint that failed", "the operator's retention after the last; 10,000 entries at most"},
	{"gb:{*}:templates", "hash name → newest revision, bytes of all, ms", ReadWrite, None, "the list of templates", "until deleted; 100 at most"},
	{"gb:{*}:template:*", "hash revision → ms and JSON", ReadWrite, None, "templates", "until deleted; the newest 50 revisions, 8 MiB of all templates at most"},
	{"gb:{*}:revisions", "hash name → newest revision, or * → highest of those forgotten", ReadWrite, None, "deleted templates: a revision is never another program", "until the template is stored again; 1000 at most"},
	{"gb:{*}:problems", "hash digest → JSON", ReadWrite, None, "the list of problems, and by which name each is kept", "until deleted; 1000 at most"},
	{"gb:{*}:problem:*", "set of uploads", ReadWrite, None, "which uploads a problem has, which are kept as long", "as the problem"},
	{"gb:{*}:graded:*", "zset id → ms until when it is of use", ReadWrite, None, "which jobs a problem graded", "as the problem; 10,000 entries at most"},
	{"gb:{*}:hooks", "hash id → JSON", ReadWrite, None, "hooks, their secrets sealed to a key of the api's", "until deleted; 100 at most"},
	{"gb:{*}:hooklog:*", "stream", ReadWrite, None, "what became of deliveries to a hook", "about 1,000 entries of 300 B; until the hook is deleted"},
	{"gb:{*}:hookseen:*", "string", ReadWrite, None, "deliveries to hooks, each under its id or digest: the job that it started", "7 days"},
	{"gb:{*}:schedules", "hash name → JSON", ReadWrite, None, "schedules, and how far each has come", "until deleted; 100 of 33 KiB at most"},
	{"gb:{*}:clock", "zset name → ms", ReadWrite, None, "when each schedule is to be looked at", "as the schedule"},
	{"gb:{*}:fires:*", "stream", ReadWrite, None, "what became of a schedule's fires", "about 200 entries of 300 B; until the schedule is deleted"},
	{"gb:{*}:rate", "string", ReadWrite, None, "the quota of requests", "a minute at most"},
	{"gb:{*}:names", "zset name → ms when it was asked for", ReadWrite, None, "names that clients of façades give to files", "a week after one was asked for; 4096 at most"},
	{"gb:{*}:names:of", "hash name → content", ReadWrite, None, "which upload each of them stands for", "as the name"},
	{"gb:{*}:idem:*", "string", ReadWrite, None, "idempotency keys of jobs", "24 hours"},
	{"gb:{*}:runidem:*", "string", ReadWrite, None, "idempotency keys of runs", "24 hours"},
	{"gb:{*}:sessionidem:*", "string", ReadWrite, None, "idempotency keys of sessions", "24 hours"},
	{"gb:{*}:batchidem:*", "string", ReadWrite, None, "idempotency keys of batches", "24 hours"},

	// Of everybody.
	{"gb:tenants", "set", ReadWrite, None, "names of tenants", "for good"},
	{"gb:audit", "stream", ReadWrite, None, "the audit log", "about 20,000 entries of 300 B"},
	{"gb:audit:jobs", "stream", ReadWrite, None, "the audit log of jobs", "about 100,000 entries"},
	{"gb:audit:operator", "stream", ReadWrite, None, "the audit log of what the operator did", "about 20,000 entries"},
	{"gb:ping", "string", ReadWrite, Write, "whether Redis takes a write, and whether replicas have what was written before", "a minute"},
	{beats + "*", "string, JSON", Read, Read, "beats, which each worker writes for itself: see User", "15 s; written every 5 s"},
	{"gb:slots", "hash worker → jobs at once, labels and keys of those that jobs have to name", ReadWrite, ReadWrite, "how many jobs each worker runs at once, and which", "an entry as long as the worker lives"},
	{"gb:labels", "hash labels and keys → ms when seen", Read, ReadWrite, "labels that workers have", "an entry until unseen for 7 days"},
	{"gb:pools", "string, JSON", ReadWrite, Read, "placements in use, which workers serve that have the labels", "a minute; written every second where there are any"},
	{"gb:pooled", "zset tenant → ms", ReadWrite, None, "tenants whose jobs have placements", "a day after the last such job"},
	{"gb:slots:total", "string", ReadWrite, ReadWrite, "their sum, which whoever misses it counts", "2 s"},
	{"gb:share", "string", ReadWrite, Read, "how many jobs each tenant with a backlog may have in the queue: the sweeper counts", "a minute"},
	{"gb:backup", "string", Read, None, "a backup is being made, so nothing in the bucket is deleted that a record named: glovebox backup writes it, as the operator", "a minute, unless it is kept"},
	{"gb:pass:*", "string", ReadWrite, None, "which api makes a pass of the sweeper for all", "0.9 of the pass's interval"},
	{"gb:drained", "hash worker → ms", None, Read, "workers that are to take no jobs: glovebox fleet writes it, as the operator", "until resumed; of workers that are gone, until one is drained a day later"},
	{"gb:warm", "hash runtime → JSON", None, Read, "how many sandboxes are to wait: glovebox warm writes it, as the operator", "an entry until it is taken back, or another is made after its end"},
	{"gb:runtimes", "hash name → JSON", Read, ReadWrite, "what workers offer", "not shown once unseen for 7 days"},
	{"gb:images", "hash image → ms when seen", Read, ReadWrite, "images that workers offer", "an entry until unseen for 7 days"},
	{"gb:keys", "hash id → JSON", Read, ReadWrite, "public keys that workers sign with", "an entry until a retention and an hour after it was seen last"},
	{"gb:secretkeys", "hash id → JSON", Read, ReadWrite, "public keys that secrets are sealed to", "for good"},
	{"gb:bell:jobs", "list", Write, ReadWrite, "wakes workers", "64 entries at most"},
	{"gb:bell:jobs:*", "list", Write, ReadWrite, "wakes workers that offer a runtime or image", "a minute; 64 entries at most"},
	{"gb:bell:deliveries", "list", ReadWrite, Write, "wakes deliverers", "64 entries at most"},

	// asynq's, version 0.26.
	{"asynq:queues", "asynq's", ReadWrite, Write, "names of queues", "asynq's"},
	{"asynq:{high}:*", "asynq's", ReadWrite, ReadWrite, "tasks of jobs", "asynq's"},
	{"asynq:{normal}:*", "asynq's", ReadWrite, ReadWrite, "tasks of jobs", "asynq's"},
	{"asynq:{low}:*", "asynq's", ReadWrite, ReadWrite, "tasks of jobs", "asynq's"},
	{"asynq:{high:*}:*", "asynq's", ReadWrite, ReadWrite, "tasks of jobs that a worker without their runtime or image handed over", "asynq's"},
	{"asynq:{normal:*}:*", "asynq's", ReadWrite, ReadWrite, "the same", "asynq's"},
	{"asynq:{low:*}:*", "asynq's", ReadWrite, ReadWrite, "the same", "asynq's"},
	{"asynq:{sessions:*}:*", "asynq's", ReadWrite, ReadWrite, "tasks of sessions, a queue for each runtime", "asynq's"},
	{"asynq:{deliveries}:t:*", "asynq's", ReadWrite, ReadWrite, "tasks of deliveries: an end adds one", "asynq's"},
	{"asynq:{deliveries}:pending", "asynq's", ReadWrite, ReadWrite, "those to be taken", "asynq's"},
	{"asynq:{deliveries}:*", "asynq's", ReadWrite, None, "those that are taken, or are to be taken later", "asynq's"},
	{"asynq:{deliveries:backlog}:t:*", "asynq's", ReadWrite, ReadWrite, "tasks of deliveries of tenants that have many", "asynq's"},
	{"asynq:{deliveries:backlog}:pending", "asynq's", ReadWrite, ReadWrite, "the same", "asynq's"},
	{"asynq:{deliveries:backlog}:*", "asynq's", ReadWrite, None, "the same", "asynq's"},
	{"asynq:servers", "asynq's", ReadWrite, ReadWrite, "asynq's own beats", "asynq's"},
	{"asynq:servers:{*}", "asynq's", ReadWrite, ReadWrite, "asynq's own beats", "asynq's"},
	{"asynq:workers", "asynq's", ReadWrite, ReadWrite, "asynq's own beats", "asynq's"},
	{"asynq:workers:{*}", "asynq's", ReadWrite, ReadWrite, "asynq's own beats", "asynq's"},
}

// beats is what the keys begin with in which workers say that they live.
const beats = "gb:worker:"

// commands are those of both roles. None of them lists keys, looks at other clients or
// changes the server.
const commands = "ping select info time wait eval evalsha " +
	"get set setex incr incrby decrby getrange setrange strlen exists del expire expireat pexpire pexpireat pttl " +
	"hget hmget hgetall hkeys hset hsetnx hdel hincrby hlen hexists hstrlen " +
	"zadd zrem zcard zcount zscore zrange zrangebyscore zrevrange zpopmin zremrangebyscore zremrangebyrank " +
	"lpush rpush lrange llen lrem ltrim rpoplpush blpop " +
	"sadd srem smembers sismember scard srandmember " +
	"xadd xrange xrevrange xdel xlen"

// apiCommands are those of the api besides: pipelines need their scripts loaded, asynq's
// inspector asks how large a queue is, a delivery that is asked for again is kept until it is done, and an upload
// is looked for in all problems.
const apiCommands = "script|load memory|usage persist sdiff"

// channels are what each role may publish on, and subscribe to.
var channels = map[Role]struct{ publish, subscribe string }{
	API:    {"gb:done gb:run gb:cancel gb:events:* gb:turn:* gb:wanted:@", "gb:done gb:run gb:events:* asynq:cancel"},
	Worker: {"gb:done gb:run gb:cancel gb:events:* gb:wanted:*", "gb:cancel gb:wanted:* gb:turn:* asynq:cancel"},
}

// The role Metrics counts, without reading what is counted; it reads only who is there.
const (
	metricsCommands = "ping select info dbsize exists type strlen hlen zcard llen scard xlen memory|usage"
	metricsKeys     = "gb:* asynq:*"
	metricsReads    = "get hgetall smembers"
	metricsReadKeys = beats + "* gb:slots gb:tenants asynq:queues"
)
