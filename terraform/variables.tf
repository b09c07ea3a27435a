variable "name" {
  description = "What this installation is called. Names of resources begin with it: 3 to 20 of a-z, 0-9 and -, beginning with a letter."
  type        = string
  default     = "glovebox"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,18}[a-z0-9]$", var.name)) && !strcontains(var.name, "--")
    error_message = "name has to be 3 to 20 of a-z, 0-9 and single -, begin with a letter and end with a letter or digit."
  }
}

variable "tags" {
  description = "Tags of everything that can have some, instances and their disks too."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "network" {
  description = <<-EOT
    Without vpc_id a VPC is made, of the address range cidr (a /16 to /20), with public, API and worker subnets in each of
    zones availability zones, and endpoints for S3, Secrets Manager and Auto Scaling. nat is "none", "one" (all zones lose
    their way out with its zone) or "zones" (one in each). With vpc_id, name the subnets; workers' need a way to those
    three services, API hosts' another to the receivers of webhooks.
  EOT
  type = object({
    vpc_id            = optional(string)
    public_subnet_ids = optional(list(string), [])
    api_subnet_ids    = optional(list(string), [])
    worker_subnet_ids = optional(list(string), [])
    cidr              = optional(string, "10.80.0.0/16")
    zones             = optional(number, 3)
    nat               = optional(string, "none")
  })
  default  = {}
  nullable = false

  validation {
    condition     = contains(["none", "one", "zones"], var.network.nat)
    error_message = "network.nat has to be none, one or zones."
  }
  validation {
    condition     = contains([2, 3], var.network.zones)
    error_message = "network.zones has to be 2 or 3."
  }
  validation {
    condition     = can(cidrnetmask(var.network.cidr)) && can(regex("/(16|17|18|19|20)$", var.network.cidr))
    error_message = "network.cidr has to be an IPv4 network of /16 to /20, such as 10.80.0.0/16."
  }
  validation {
    condition = var.network.vpc_id == null || alltrue([
      for ids in [var.network.public_subnet_ids, var.network.api_subnet_ids, var.network.worker_subnet_ids] : length(ids) >= 2
    ])
    error_message = "network.vpc_id needs public_subnet_ids, api_subnet_ids and worker_subnet_ids, at least two of each."
  }
  validation {
    condition = var.network.vpc_id != null || alltrue([
      for ids in [var.network.public_subnet_ids, var.network.api_subnet_ids, var.network.worker_subnet_ids] : length(ids) == 0
    ])
    error_message = "network has subnets, but no vpc_id: name both or neither."
  }
  validation {
    condition     = var.network.vpc_id == null || var.network.nat == "none"
    error_message = "network.nat is for a VPC that the module makes: with network.vpc_id it has to be none."
  }
  validation {
    condition     = var.network.vpc_id != null || var.network.nat != "none" || var.ami.packages_installed
    error_message = "Hosts fetch Debian packages as they boot, and network.nat is none: ask for nat, or name an ami that has the packages (ami.packages_installed; README.md lists them)."
  }
}

variable "ami" {
  description = <<-EOT
    The hosts' image: the SSM parameter that names it, by default Debian 13's for architecture. packages_installed says that
    it has the packages that the README lists; hosts then need, and have, no way to a package mirror.
  EOT
  type = object({
    ssm_parameter      = optional(string)
    packages_installed = optional(bool, false)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.ami.ssm_parameter == null || can(regex("^/[A-Za-z0-9/_.-]+$", var.ami.ssm_parameter))
    error_message = "ami.ssm_parameter has to be the name of an SSM parameter, such as /aws/service/debian/release/13/latest/amd64."
  }
}

variable "architecture" {
  description = "amd64 or arm64: of the hosts' image, and of the release. All instance types have to be of it."
  type        = string
  default     = "amd64"
  nullable    = false

  validation {
    condition     = contains(["amd64", "arm64"], var.architecture)
    error_message = "architecture has to be amd64 or arm64."
  }
}

variable "release" {
  description = "The archive of what `infra/worker-host.sh --pack` makes, for architecture: url is https://… or s3://BUCKET/KEY (the module gives the hosts the right to read it; without network.vpc_id the only form for objects of S3), sha256 is its sum."
  type = object({
    url    = string
    sha256 = string
  })
  nullable = false

  validation {
    condition     = can(regex("^(https://[A-Za-z0-9./_~%?&=:+-]+|s3://[a-z0-9.-]+/[A-Za-z0-9./_~+-]+)$", var.release.url))
    error_message = "release.url has to be https://… or s3://BUCKET/KEY."
  }
  # The endpoint of the module's own VPC lets hosts read the bucket and an s3:// release, and no other object.
  validation {
    condition     = var.network.vpc_id != null || !can(regex("(?i)^https://([a-z0-9.-]+\\.)?s3[.-][a-z0-9.-]*amazonaws\\.com", var.release.url))
    error_message = "release.url names an object of S3 by https://, which the VPC that the module makes lets no host read: it has to be s3://BUCKET/KEY, or https://… of another server."
  }
  validation {
    condition     = can(regex("^[0-9a-f]{64}$", var.release.sha256))
    error_message = "release.sha256 has to be 64 of 0-9 and a-f."
  }
}

variable "redis" {
  description = <<-EOT
    ElastiCache for Valkey: node_type, engine_version (7.2 or 8.…), nodes (3 to 6: fewer can't lose one and stay safe), days for
    which daily snapshots are kept, the weekly maintenance window (UTC), and whether changes wait for it.
  EOT
  type = object({
    node_type          = optional(string, "cache.m7g.large")
    engine_version     = optional(string, "8.2")
    nodes              = optional(number, 3)
    snapshot_days      = optional(number, 7)
    maintenance_window = optional(string, "sun:03:00-sun:04:00")
    apply_immediately  = optional(bool, false)
  })
  default  = {}
  nullable = false

  validation {
    condition     = can(regex("^cache\\.[a-z0-9]+\\.[a-z0-9]+$", var.redis.node_type))
    error_message = "redis.node_type has to be a type of ElastiCache, such as cache.m7g.large."
  }
  validation {
    condition     = can(regex("^(7\\.2|8\\.[0-9]+)$", var.redis.engine_version))
    error_message = "redis.engine_version has to be a Valkey of 7.2 or 8, such as 8.2: another was not tried."
  }
  validation {
    condition     = var.redis.nodes >= 3 && var.redis.nodes <= 6 && floor(var.redis.nodes) == var.redis.nodes
    error_message = "redis.nodes has to be 3 to 6."
  }
  validation {
    condition     = var.redis.snapshot_days >= 1 && var.redis.snapshot_days <= 35 && floor(var.redis.snapshot_days) == var.redis.snapshot_days
    error_message = "redis.snapshot_days has to be 1 to 35."
  }
  validation {
    condition     = can(regex("^(mon|tue|wed|thu|fri|sat|sun):[0-2][0-9]:[0-5][0-9]-(mon|tue|wed|thu|fri|sat|sun):[0-2][0-9]:[0-5][0-9]$", var.redis.maintenance_window))
    error_message = "redis.maintenance_window has to be like sun:03:00-sun:04:00."
  }
}

variable "bucket" {
  description = "Name of the bucket, which is made (null: NAME-ACCOUNT-REGION), and the origins of web pages that may upload to it and download from it, such as https://app.example.com."
  type = object({
    name         = optional(string)
    cors_origins = optional(list(string), [])
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.bucket.name == null || can(regex("^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$", var.bucket.name))
    error_message = "bucket.name has to be 3 to 63 of a-z, 0-9 and -: with a dot, TLS to it would fail."
  }
  validation {
    condition     = alltrue([for origin in var.bucket.cors_origins : can(regex("^https://[a-z0-9.-]+(:[0-9]+)?$", origin))])
    error_message = "bucket.cors_origins has to name each origin, as https://HOST: no *, no path."
  }
}

variable "retention_seconds" {
  description = "How long jobs are kept after their end, at most: GLOVEBOX_RETENTION_SECONDS of every process."
  type        = number
  default     = 604800
  nullable    = false

  validation {
    condition     = var.retention_seconds >= 60 && var.retention_seconds <= 315360000 && floor(var.retention_seconds) == var.retention_seconds
    error_message = "retention_seconds has to be a whole number of seconds, 60 to 315360000, which is ten years."
  }
}

variable "api" {
  description = <<-EOT
    The API's hosts and what is in front of them: public_url is the https URL at which clients reach the load balancer, and
    certificate_arn the certificate of its host. client_cidrs may connect. requests_per_ip and requests_per_token are bounds
    within five minutes. webhook_ports are the ports of receivers, on the internet. settings are more of the API's settings.
  EOT
  type = object({
    public_url          = string
    certificate_arn     = string
    instance_types      = optional(list(string), ["c7a.large", "c6a.large"])
    min_size            = optional(number, 2)
    max_size            = optional(number, 3)
    disk_gib            = optional(number, 16)
    client_cidrs        = optional(list(string), ["0.0.0.0/0"])
    webhook_ports       = optional(list(number), [443])
    requests_per_ip     = optional(number, 30000)
    requests_per_token  = optional(number, 60000)
    access_logs_bucket  = optional(string)
    deletion_protection = optional(bool, true)
    settings            = optional(map(string), {})
  })
  nullable = false

  validation {
    condition     = can(regex("^https://[a-z0-9.-]+$", var.api.public_url))
    error_message = "api.public_url has to be https://HOST, without a path or port."
  }
  validation {
    condition     = can(regex("^arn:[a-z-]+:acm:[a-z0-9-]+:[0-9]{12}:certificate/.+$", var.api.certificate_arn))
    error_message = "api.certificate_arn has to be the ARN of a certificate of ACM, in the load balancer's region."
  }
  validation {
    condition     = length(var.api.instance_types) > 0
    error_message = "api.instance_types has to name at least one type."
  }
  validation {
    condition     = var.api.min_size >= 1 && var.api.max_size >= var.api.min_size
    error_message = "api.min_size has to be at least 1, and api.max_size no less."
  }
  validation {
    condition     = var.api.disk_gib >= 8 && var.api.disk_gib <= 16384
    error_message = "api.disk_gib has to be 8 to 16384."
  }
  validation {
    condition     = length(var.api.client_cidrs) > 0 && alltrue([for cidr in var.api.client_cidrs : can(cidrnetmask(cidr))])
    error_message = "api.client_cidrs has to name at least one IPv4 network, such as 0.0.0.0/0."
  }
  validation {
    condition     = alltrue([for port in var.api.webhook_ports : port >= 1 && port <= 65535 && floor(port) == port])
    error_message = "api.webhook_ports has to hold ports, 1 to 65535."
  }
  validation {
    condition     = alltrue([for limit in [var.api.requests_per_ip, var.api.requests_per_token] : limit >= 10 && limit <= 2000000000])
    error_message = "api.requests_per_ip and api.requests_per_token have to be 10 to 2000000000, as WAF wants."
  }
  validation {
    condition     = alltrue([for name in keys(var.api.settings) : contains(local.api_settings, name)])
    error_message = "api.settings may hold ${join(", ", local.api_settings)}; secrets and what the module sets are not among them."
  }
  validation {
    condition     = alltrue([for value in values(var.api.settings) : can(regex("^[^'\n]*$", value))])
    error_message = "A value of api.settings can hold no ' and be of one line only."
  }
}

variable "workers" {
  description = <<-EOT
    Pools of worker hosts by name (1 to 12 of a-z, 0-9 and -). Several instance_types find Spot capacity more often. A pool has
    min_size hosts until autoscale or wanted_workers_metric says how many, up to max_size. Jobs have grace_seconds to end when a host goes
    (90 at most on Spot, whose notice is two minutes). labels are the worker's
    GLOVEBOX_LABELS, which a job's placement names, and become tags of the hosts. only names those of them that a job has to name to run
    there: such a pool is kept for these jobs. settings are more of the worker's.
  EOT
  type = map(object({
    instance_types = optional(list(string), ["c7a.xlarge", "c6a.xlarge"])
    min_size       = optional(number, 1)
    max_size       = optional(number, 4)
    spot           = optional(bool, false)
    grace_seconds  = optional(number, 60)
    disk_gib       = optional(number, 40)
    labels         = optional(map(string), {})
    only           = optional(set(string), [])
    settings       = optional(map(string), {})
  }))
  default  = { default = {} }
  nullable = false

  validation {
    condition     = alltrue([for name in keys(var.workers) : can(regex("^[a-z]([a-z0-9-]{0,10}[a-z0-9])?$", name)) && !contains(["api", "metrics", "operator"], name)])
    error_message = "A pool's name in workers has to be 1 to 12 of a-z, 0-9 and -, begin with a letter, and not be api, metrics or operator."
  }
  validation {
    condition     = alltrue([for pool in values(var.workers) : length(pool.instance_types) > 0])
    error_message = "workers.….instance_types has to name at least one type."
  }
  validation {
    condition     = alltrue([for pool in values(var.workers) : pool.min_size >= 0 && pool.max_size >= max(pool.min_size, 1)])
    error_message = "workers.….min_size has to be at least 0, and max_size at least 1 and no less."
  }
  validation {
    condition     = var.wanted_workers_metric == null || alltrue([for pool in values(var.workers) : pool.min_size >= 1])
    error_message = "With wanted_workers_metric, workers.….min_size has to be at least 1: target tracking can't leave 0."
  }
  validation {
    condition     = alltrue([for pool in values(var.workers) : pool.grace_seconds >= 1 && pool.grace_seconds <= (pool.spot ? 90 : 3600) && floor(pool.grace_seconds) == pool.grace_seconds])
    error_message = "workers.….grace_seconds has to be a whole number from 1 to 3600, and on Spot 90 at most."
  }
  validation {
    condition     = alltrue([for pool in values(var.workers) : pool.disk_gib >= 16 && pool.disk_gib <= 16384])
    error_message = "workers.….disk_gib has to be 16 to 16384."
  }
  validation {
    condition     = alltrue([for pool in values(var.workers) : length(pool.labels) <= 16])
    error_message = "workers.….labels has to have 16 labels at most."
  }
  validation {
    condition     = alltrue(flatten([for pool in values(var.workers) : [for label in keys(pool.labels) : can(regex("^[a-z][a-z0-9._-]{0,62}$", label))]]))
    error_message = "A label in workers.….labels has to be 1 to 63 of a-z, 0-9, ., _ and -, and begin with a letter."
  }
  validation {
    condition     = alltrue(flatten([for pool in values(var.workers) : [for value in values(pool.labels) : can(regex("^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", value))]]))
    error_message = "A value in workers.….labels has to be 1 to 63 letters, digits, ., _ and -, and begin with a letter or a digit."
  }
  validation {
    condition     = alltrue([for pool in values(var.workers) : length(pool.only) <= 8 && length(setsubtract(pool.only, keys(pool.labels))) == 0])
    error_message = "workers.….only has to name up to 8 of the pool's labels."
  }
  validation {
    condition     = alltrue(flatten([for pool in values(var.workers) : [for name in keys(pool.settings) : contains(local.worker_settings, name)]]))
    error_message = "workers.….settings may hold ${join(", ", local.worker_settings)}; secrets and what the module sets are not among them."
  }
  validation {
    condition     = alltrue(flatten([for pool in values(var.workers) : [for value in values(pool.settings) : can(regex("^[^'\n]*$", value))]]))
    error_message = "A value of workers.….settings can hold no ' and be of one line only."
  }
}

variable "autoscale" {
  description = <<-EOT
    Has pools follow what there is to do, by name, each between its min_size and max_size: the API's hosts run `glovebox autoscale` for
    each, and write what it says into CloudWatch. A pool with only is counted from the jobs that name these labels of it, one without from the
    jobs of workers that are kept for none, which only one pool can be. slots is how many jobs one of its hosts runs at once: its CPUs, or its
    GLOVEBOX_CONCURRENCY. boot_seconds is how long a host takes until it takes jobs, and clear_seconds within which time what waits is
    to be done, boot included. sessions is how many sessions one of them holds, 0 for a pool of jobs: hosts that go end theirs. Pools that aren't named stay at their min_size, without wanted_workers_metric.
  EOT
  type = map(object({
    slots         = number
    boot_seconds  = optional(number, 180)
    clear_seconds = optional(number, 600)
    sessions      = optional(number, 0)
  }))
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name in keys(var.autoscale) : try(var.workers[name].min_size >= 1 && var.workers[name].max_size <= 10000, false)])
    error_message = "Each of autoscale has to be one of workers, with a min_size of at least 1, as target tracking can't leave 0, and a max_size of 10000 at most."
  }
  validation {
    condition     = alltrue([for pool in values(var.autoscale) : pool.slots >= 1 && pool.slots <= 1000 && floor(pool.slots) == pool.slots])
    error_message = "autoscale.….slots has to be a whole number, 1 to 1000."
  }
  validation {
    condition     = alltrue([for pool in values(var.autoscale) : pool.sessions >= 0 && pool.sessions <= 1000 && floor(pool.sessions) == pool.sessions])
    error_message = "autoscale.….sessions has to be a whole number, 0 to 1000."
  }
  validation {
    condition = alltrue([for pool in values(var.autoscale) :
      pool.boot_seconds >= 1 && pool.boot_seconds <= 3600 && pool.clear_seconds > pool.boot_seconds && pool.clear_seconds <= 86400
      && floor(pool.boot_seconds) == pool.boot_seconds && floor(pool.clear_seconds) == pool.clear_seconds
    ])
    error_message = "autoscale.….boot_seconds and clear_seconds have to be whole seconds, boot_seconds 3600 at most, clear_seconds more than boot_seconds and 86400 at most."
  }
  validation {
    condition = try(length(distinct([for name in keys(var.autoscale) : { for label in var.workers[name].only : label => var.workers[name].labels[label] }])), 0) == length(var.autoscale) || anytrue([
      for name in keys(var.autoscale) : !can(var.workers[name])
    ])
    error_message = "The pools of autoscale have to differ in the labels that only keeps them for, as jobs are counted by these. One pool at most can have no only."
  }
  validation {
    condition     = length(var.autoscale) == 0 || var.wanted_workers_metric == null
    error_message = "Either autoscale or wanted_workers_metric says how many workers there should be, not both."
  }
}

variable "wanted_workers_metric" {
  description = <<-EOT
    CloudWatch metric that says how many workers each pool should have, by the dimension Pool, where autoscale doesn't:
    a number of your own. Once a minute, or scaling stands still.
  EOT
  type = object({
    namespace = string
    name      = string
  })
  default = null

  validation {
    condition     = var.wanted_workers_metric == null || can(regex("^[A-Za-z0-9_./#-]{1,255}$", var.wanted_workers_metric.namespace)) && can(regex("^[A-Za-z0-9_./#-]{1,255}$", var.wanted_workers_metric.name))
    error_message = "wanted_workers_metric.namespace and name have to be 1 to 255 of letters, digits and _ . / # -."
  }
  validation {
    condition     = var.wanted_workers_metric == null || !startswith(try(var.wanted_workers_metric.namespace, ""), "AWS/")
    error_message = "wanted_workers_metric.namespace can't begin with AWS/: those are AWS's own."
  }
}

variable "metrics_security_group_id" {
  description = "Security group of a Prometheus that may read the metrics of every process, at port 8438. Without one (null), they are served nowhere."
  type        = string
  default     = null

  validation {
    condition     = var.metrics_security_group_id == null || can(regex("^sg-[0-9a-f]+$", var.metrics_security_group_id))
    error_message = "metrics_security_group_id has to be like sg-0123456789abcdef0."
  }
}

variable "alarm_actions" {
  description = "ARNs of what is told of alarms, SNS topics for example."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for arn in var.alarm_actions : can(regex("^arn:[a-z-]+:[a-z0-9-]+:", arn))])
    error_message = "alarm_actions has to hold ARNs."
  }
}

variable "secrets" {
  description = <<-EOT
    Every secret, which each plan and apply is given and no state keeps. redis_passwords: one for api, metrics, operator and each
    pool of workers, of 20 to 128 letters, digits, - and _. api: what `glovebox api --help` says of GLOVEBOX_ADMIN_TOKEN,
    GLOVEBOX_TOKEN, GLOVEBOX_WEBHOOK_KEY and GLOVEBOX_CAPABILITY_KEY. workers: GLOVEBOX_SIGNING_KEY and GLOVEBOX_SECRETS_KEY.
  EOT
  type = object({
    redis_passwords = map(string)
    api = object({
      admin_token    = string
      token          = optional(string)
      webhook_key    = string
      capability_key = string
    })
    workers = optional(object({
      signing_key = optional(string)
      secrets_key = optional(string)
    }), {})
  })
  nullable  = false
  ephemeral = true
  sensitive = true

  validation {
    condition = alltrue([
      for user in concat(["api", "metrics", "operator"], keys(var.workers)) :
      can(regex("^[A-Za-z0-9_-]{20,128}$", lookup(var.secrets.redis_passwords, user, "")))
    ])
    error_message = "secrets.redis_passwords needs api, metrics, operator and each pool of workers, each 20 to 128 letters, digits, - and _."
  }
  validation {
    condition = alltrue([
      for token in [var.secrets.api.admin_token, var.secrets.api.token] : token == null ? true : can(regex("^[A-Za-z0-9_-]{32,128}$", token))
    ])
    error_message = "secrets.api.admin_token and token have to be 32 to 128 letters, digits, - and _: openssl rand -hex 32."
  }
  validation {
    condition = alltrue([
      for key in [var.secrets.api.webhook_key, var.secrets.api.capability_key, var.secrets.workers.secrets_key] :
      key == null ? true : can(regex("^[A-Za-z0-9+/]{43}=( [A-Za-z0-9+/]{43}=)?$", key))
    ])
    error_message = "secrets.api.webhook_key, capability_key and secrets.workers.secrets_key have to be 32 bytes in base64 (openssl rand -base64 32), or two such keys with a space between, the new one first."
  }
  validation {
    condition     = var.secrets.workers.signing_key == null ? true : can(regex("^[A-Za-z0-9+/]{43}=$", var.secrets.workers.signing_key))
    error_message = "secrets.workers.signing_key has to be 32 bytes in base64: openssl rand -base64 32."
  }
}

variable "secrets_version" {
  description = "Raise it by one to have changed secrets written: Terraform can't see that they changed. Then restart the processes, or refresh their groups."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = var.secrets_version >= 1 && floor(var.secrets_version) == var.secrets_version
    error_message = "secrets_version has to be a whole number from 1 on."
  }
}
