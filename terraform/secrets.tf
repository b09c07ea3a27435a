# Secrets go from the caller into Secrets Manager and ElastiCache through write-only arguments:
# neither plan nor state holds them. Each group of hosts reads its own, at each start.

locals {
  # As lines that systemd reads as an EnvironmentFile. What is null is left out.
  secret_settings = merge(
    {
      api = {
        GLOVEBOX_REDIS_URL      = "rediss://glovebox-api:${var.secrets.redis_passwords.api}@${local.redis_address}:${local.redis_port}/0"
        GLOVEBOX_ADMIN_TOKEN    = var.secrets.api.admin_token
        GLOVEBOX_TOKEN          = var.secrets.api.token
        GLOVEBOX_WEBHOOK_KEY    = var.secrets.api.webhook_key
        GLOVEBOX_CAPABILITY_KEY = var.secrets.api.capability_key
      }
    },
    {
      for pool in keys(var.workers) : pool => {
        GLOVEBOX_REDIS_URL   = "rediss://glovebox-worker-${pool}:${var.secrets.redis_passwords[pool]}@${local.redis_address}:${local.redis_port}/0"
        GLOVEBOX_SIGNING_KEY = var.secrets.workers.signing_key
        GLOVEBOX_SECRETS_KEY = var.secrets.workers.secrets_key
      }
    },
  )
}

resource "aws_kms_key" "platform" {
  description             = "Glovebox ${var.name}: secrets and Valkey"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  tags                    = local.tags
}

resource "aws_kms_alias" "platform" {
  name          = "alias/${var.name}-platform"
  target_key_id = aws_kms_key.platform.key_id
}

# By prefix: the name of one that was deleted is taken for the time in which it can be had back.
resource "aws_secretsmanager_secret" "settings" {
  for_each = local.groups

  name_prefix = "${var.name}/${each.key}-"
  description = "Glovebox ${var.name}: secret settings of ${each.key}"
  kms_key_id  = aws_kms_key.platform.arn
  tags        = local.tags
}

resource "aws_secretsmanager_secret_version" "settings" {
  for_each = local.groups

  secret_id                = aws_secretsmanager_secret.settings[each.key].id
  secret_string_wo         = join("\n", [for name, value in local.secret_settings[each.key] : "${name}='${value}'" if value != null])
  secret_string_wo_version = var.secrets_version

  # The address is part of it.
  lifecycle { replace_triggered_by = [aws_elasticache_replication_group.this.primary_endpoint_address] }
}
