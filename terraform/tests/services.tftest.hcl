# Valkey and the load balancer.
mock_provider "aws" {
  source          = "./tests/mocks"
  override_during = plan
}

variables {
  network = { nat = "one" }
  release = {
    url    = "s3://releases/glovebox/pack-amd64.tar.gz"
    sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
  }
  api = {
    public_url      = "https://glovebox.example.com"
    certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000"
  }
  workers = {
    default = {}
    spot    = { spot = true, grace_seconds = 90, labels = { size = "small" }, settings = { GLOVEBOX_CONCURRENCY = "4" } }
  }
  secrets = {
    redis_passwords = {
      api      = "password-of-the-api-0001"
      metrics  = "password-of-metrics-0001"
      operator = "password-of-operator-001"
      default  = "password-of-a-pool-00001"
      spot     = "password-of-a-pool-00002"
    }
    api = {
      admin_token    = "0000000000000000000000000000000000000000000000000000000000000000"
      webhook_key    = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
      capability_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
    }
    workers = { signing_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" }
  }
}

run "redis" {
  command = plan

  assert {
    condition = alltrue([
      aws_elasticache_replication_group.this.multi_az_enabled, aws_elasticache_replication_group.this.automatic_failover_enabled,
      tobool(aws_elasticache_replication_group.this.at_rest_encryption_enabled), aws_elasticache_replication_group.this.transit_encryption_enabled,
    ]) && aws_elasticache_replication_group.this.num_cache_clusters == 3 && aws_elasticache_replication_group.this.transit_encryption_mode == "required"
    error_message = "Want three nodes in several zones, TLS and encryption at rest."
  }
  assert {
    condition     = [for parameter in aws_elasticache_parameter_group.this.parameter : parameter.value if parameter.name == "maxmemory-policy"] == ["noeviction"]
    error_message = "Records could be evicted."
  }
  assert {
    condition = { for key, user in aws_elasticache_user.this : key => user.user_name } == {
      api      = "glovebox-api"
      default  = "glovebox-worker-default"
      metrics  = "glovebox-metrics"
      operator = "glovebox-operator"
      spot     = "glovebox-worker-spot"
    }
    error_message = "Want a user for each role and each pool."
  }
  assert {
    condition     = alltrue([for user in values(aws_elasticache_user.this) : startswith(user.access_string, "on resetkeys resetchannels -@all ") && user.no_password_required != true])
    error_message = "A user has more than it is granted, or no password."
  }
  assert {
    condition = alltrue([for pool in ["default", "spot"] :
      strcontains(aws_elasticache_user.this[pool].access_string, "%W~gb:worker:${pool}-??????????") && !strcontains(aws_elasticache_user.this[pool].access_string, "WORKER") && !strcontains(aws_elasticache_user.this[pool].access_string, "+@all")
    ])
    error_message = "A pool's user has to write the beats of its own workers only."
  }
  assert {
    condition     = [for user in ["api", "metrics", "default", "spot"] : user if strcontains(aws_elasticache_user.this[user].access_string, "+@all")] == []
    error_message = "Only the operator may do everything."
  }
  assert {
    condition     = toset(aws_elasticache_user_group.this.user_ids) == toset([for user in values(aws_elasticache_user.this) : user.user_id])
    error_message = "A user is not in the group."
  }
  # Write-only: what is planned for the state has no value.
  assert {
    condition     = alltrue([for user in values(aws_elasticache_user.this) : user.passwords_wo == null && user.passwords == null])
    error_message = "A password is in the state."
  }
  assert {
    condition     = alltrue([for version in values(aws_secretsmanager_secret_version.settings) : version.secret_string_wo == null && version.secret_string_wo_version == 1])
    error_message = "A secret is in the state."
  }
}

run "rotation" {
  command = plan
  variables {
    secrets_version = 2
  }

  assert {
    condition     = alltrue([for user in values(aws_elasticache_user.this) : user.passwords_wo_version == 2]) && alltrue([for version in values(aws_secretsmanager_secret_version.settings) : version.secret_string_wo_version == 2])
    error_message = "Raising secrets_version has to write every secret."
  }
}

run "load_balancer" {
  command = plan

  assert {
    condition     = aws_lb_target_group.api.health_check[0].path == "/readyz" && aws_lb_target_group.api.port == 8437
    error_message = "The load balancer has to ask whether a job would be accepted."
  }
  assert {
    condition     = aws_lb.api.idle_timeout >= 300 && aws_lb.api.drop_invalid_header_fields && aws_lb.api.enable_deletion_protection
    error_message = "Streams are cut off, or the load balancer is not careful."
  }
  assert {
    condition     = startswith(aws_lb_listener.https.ssl_policy, "ELBSecurityPolicy-TLS13")
    error_message = "Old TLS is spoken."
  }
  assert {
    condition     = alltrue([for rule in aws_wafv2_web_acl.api.rule : length(rule.statement[0].rate_based_statement) == 1 && length(rule.statement[0].managed_rule_group_statement) == 0]) && length(aws_wafv2_web_acl.api.rule) == 2
    error_message = "WAF has to bound rates, and to look at no program."
  }
  assert {
    condition     = aws_wafv2_web_acl_association.api.resource_arn == aws_lb.api.arn
    error_message = "WAF is in front of nothing."
  }
}

run "alarms" {
  command = plan
  variables {
    alarm_actions = ["arn:aws:sns:eu-central-1:123456789012:pages"]
  }

  assert {
    condition = alltrue([
      for alarm in concat(
        values(aws_cloudwatch_metric_alarm.redis), values(aws_cloudwatch_metric_alarm.group_small),
        [aws_cloudwatch_metric_alarm.api_none, aws_cloudwatch_metric_alarm.api_unready, aws_cloudwatch_metric_alarm.api_errors],
      ) : alarm.alarm_actions == toset(["arn:aws:sns:eu-central-1:123456789012:pages"])
    ])
    error_message = "An alarm tells nobody."
  }
  assert {
    condition     = length(aws_cloudwatch_metric_alarm.redis) == 9 && toset(keys(aws_cloudwatch_metric_alarm.group_small)) == toset(["api", "default", "spot"])
    error_message = "Want alarms on each node of Valkey and each group."
  }
}
