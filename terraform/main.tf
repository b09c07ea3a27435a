# Glovebox on AWS: an API behind a load balancer, pools of worker hosts that nobody reaches, a
# Valkey in three zones and a bucket. Each file is about one of them; hosts.tf is about what
# the API's hosts and the workers' have in common.

data "aws_partition" "current" {}
data "aws_caller_identity" "current" {}
data "aws_region" "current" {}

locals {
  partition = data.aws_partition.current.partition
  account   = data.aws_caller_identity.current.account_id
  region    = data.aws_region.current.region

  api_port     = 8437
  metrics_port = 8438
  redis_port   = 6379

  tags = merge(var.tags, { Glovebox = var.name })

  # What every process is told. Secrets are not among it: secrets.tf.
  shared_settings = merge(
    {
      GLOVEBOX_S3_REGION         = local.region
      GLOVEBOX_S3_BUCKET         = local.bucket
      GLOVEBOX_RETENTION_SECONDS = tostring(var.retention_seconds)
    },
    var.metrics_security_group_id == null ? {} : { GLOVEBOX_METRICS_ADDR = "0.0.0.0:${local.metrics_port}" },
  )

  # Groups of hosts, by name: "api", and each pool of workers.
  groups = merge(
    {
      api = {
        role           = "api"
        instance_types = var.api.instance_types
        min_size       = var.api.min_size
        max_size       = var.api.max_size
        spot           = false
        grace_seconds  = 20
        disk_gib       = var.api.disk_gib
        labels         = {}
        settings = merge(var.api.settings, local.shared_settings, {
          GLOVEBOX_API_ADDR        = "0.0.0.0:${local.api_port}"
          GLOVEBOX_PUBLIC_URL      = var.api.public_url
          GLOVEBOX_TRUSTED_PROXIES = join(",", local.public_cidrs)
          GLOVEBOX_GRACE_SECONDS   = "20"
        })
      }
    },
    {
      for name, pool in var.workers : name => {
        role           = "worker"
        instance_types = pool.instance_types
        min_size       = pool.min_size
        max_size       = pool.max_size
        spot           = pool.spot
        grace_seconds  = pool.grace_seconds
        disk_gib       = pool.disk_gib
        labels         = pool.labels
        settings = merge(pool.settings, local.shared_settings, {
          GLOVEBOX_GRACE_SECONDS = tostring(pool.grace_seconds)
          GLOVEBOX_LABELS        = join(",", [for label, value in pool.labels : "${label}=${value}"])
          GLOVEBOX_LABELS_ONLY   = join(",", pool.only)
        })
      }
    },
  )

  # Of the settings that are no secret and that the module doesn't make, those that a pool or
  # the API may be given. A Go test holds them against what the programs read.
  worker_settings = [
    "GLOVEBOX_CACHE_MB", "GLOVEBOX_CONCURRENCY", "GLOVEBOX_IMAGES", "GLOVEBOX_MEMORY_MB", "GLOVEBOX_POLL_MS", "GLOVEBOX_PRELOAD", "GLOVEBOX_PRICES",
    "GLOVEBOX_REDIS_WAIT_REPLICAS", "GLOVEBOX_RESULT_SECONDS", "GLOVEBOX_SESSION_PAUSE_AFTER_SECONDS", "GLOVEBOX_SESSION_PAUSE_MB", "GLOVEBOX_SNAPSHOTS", "GLOVEBOX_WARM", "OTEL_EXPORTER_OTLP_ENDPOINT",
  ]
  api_settings = [
    "GLOVEBOX_BATCH_MB", "GLOVEBOX_FACADES", "GLOVEBOX_FACADE_ADDRESSES", "GLOVEBOX_FACADE_TENANT", "GLOVEBOX_FACADE_WAIT_SECONDS", "GLOVEBOX_POLL_MS",
    "GLOVEBOX_PRICES", "GLOVEBOX_RECORDS_MB", "GLOVEBOX_REDIS_WAIT_REPLICAS", "GLOVEBOX_RESULT_SECONDS", "GLOVEBOX_TENANT_QUOTAS",
    "GLOVEBOX_WEBHOOK_ALLOW", "GLOVEBOX_WEBHOOK_SCHEDULE", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER_ARG",
  ]
}
