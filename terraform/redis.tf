# Valkey in three zones, with a user for each role. A failover loses what the replica lacked
# at that moment: README.md, "What a failover loses".

locals {
  # As glovebox redis-acl would print them. A Go test keeps the file at what internal/redisacl says.
  access_strings = jsondecode(file("${path.module}/redis-users.json"))

  redis_users = merge(
    {
      api      = { name = "glovebox-api", access = local.access_strings.api }
      metrics  = { name = "glovebox-metrics", access = local.access_strings.metrics }
      operator = { name = "glovebox-operator", access = local.access_strings.operator }
    },
    # A user for each pool, which can't say that a worker of another pool lives, or is gone.
    {
      for pool in keys(var.workers) : pool => {
        name   = "glovebox-worker-${pool}"
        access = replace(local.access_strings.worker, "WORKER", pool)
      }
    },
  )

  redis_address = aws_elasticache_replication_group.this.primary_endpoint_address
}

resource "aws_elasticache_user" "this" {
  for_each = local.redis_users

  user_id              = "${var.name}-${each.key}"
  user_name            = each.value.name
  engine               = "valkey"
  access_string        = each.value.access
  passwords_wo         = var.secrets.redis_passwords[each.key]
  passwords_wo_version = var.secrets_version
  tags                 = local.tags
}

resource "aws_elasticache_user_group" "this" {
  user_group_id = var.name
  engine        = "valkey"
  user_ids      = values(aws_elasticache_user.this)[*].user_id
  tags          = local.tags
}

# The default group evicts records when memory runs short. Changing the family makes another group.
resource "aws_elasticache_parameter_group" "this" {
  name        = "${var.name}-valkey${split(".", var.redis.engine_version)[0]}"
  family      = "valkey${split(".", var.redis.engine_version)[0]}"
  description = "Glovebox: refuse writes rather than evict records"
  tags        = local.tags

  parameter {
    name  = "maxmemory-policy"
    value = "noeviction"
  }

  lifecycle { create_before_destroy = true }
}

resource "aws_elasticache_subnet_group" "this" {
  name        = var.name
  description = "Glovebox: the workers' subnets"
  subnet_ids  = local.worker_subnet_ids
  tags        = local.tags
}

resource "aws_elasticache_replication_group" "this" {
  replication_group_id = var.name
  description          = "Glovebox's record and queues"
  engine               = "valkey"
  engine_version       = var.redis.engine_version
  node_type            = var.redis.node_type
  port                 = local.redis_port
  parameter_group_name = aws_elasticache_parameter_group.this.name

  num_cache_clusters         = var.redis.nodes
  automatic_failover_enabled = true
  multi_az_enabled           = true

  subnet_group_name  = aws_elasticache_subnet_group.this.name
  security_group_ids = [aws_security_group.redis.id]
  user_group_ids     = [aws_elasticache_user_group.this.user_group_id]

  transit_encryption_enabled = true
  transit_encryption_mode    = "required"
  at_rest_encryption_enabled = true
  kms_key_id                 = aws_kms_key.platform.arn

  snapshot_retention_limit   = var.redis.snapshot_days
  final_snapshot_identifier  = "${var.name}-final"
  maintenance_window         = var.redis.maintenance_window
  auto_minor_version_upgrade = true
  apply_immediately          = var.redis.apply_immediately

  tags = local.tags
}

resource "aws_security_group" "redis" {
  name_prefix = "${var.name}-redis-"
  description = "Glovebox: Valkey"
  vpc_id      = local.vpc_id
  tags        = merge(local.tags, { Name = "${var.name}-redis" })

  lifecycle { create_before_destroy = true }
}

resource "aws_vpc_security_group_ingress_rule" "redis" {
  for_each = local.roles

  security_group_id            = aws_security_group.redis.id
  description                  = "From hosts of role ${each.key}"
  referenced_security_group_id = aws_security_group.hosts[each.key].id
  ip_protocol                  = "tcp"
  from_port                    = local.redis_port
  to_port                      = local.redis_port
}
