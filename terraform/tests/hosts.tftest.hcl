# Hosts: how they start, what they are told, how they end.
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
    spot    = { spot = true, grace_seconds = 90, labels = { size = "small", capacity = "spot" }, only = ["capacity"], settings = { GLOVEBOX_CONCURRENCY = "4" } }
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

run "hosts" {
  command = plan

  assert {
    condition     = toset(keys(aws_autoscaling_group.this)) == toset(["api", "default", "spot"])
    error_message = "Want a group for the API and for each pool."
  }
  assert {
    condition = alltrue([
      for template in values(aws_launch_template.this) :
      template.metadata_options[0].http_tokens == "required" && template.metadata_options[0].http_put_response_hop_limit == 1 && template.metadata_options[0].http_endpoint == "enabled"
    ])
    error_message = "The metadata service has to want a token, one hop away at most."
  }
  assert {
    condition     = alltrue([for template in values(aws_launch_template.this) : tobool(template.block_device_mappings[0].ebs[0].encrypted)])
    error_message = "A disk is not encrypted."
  }
  assert {
    condition     = alltrue([for template in values(aws_launch_template.this) : template.key_name == null || template.key_name == ""])
    error_message = "A host has a key pair."
  }
  assert {
    condition     = alltrue([for name, template in aws_launch_template.this : template.image_id == "resolve:ssm:/aws/service/debian/release/13/latest/amd64"])
    error_message = "Want Debian 13 of amd64."
  }
  assert {
    condition     = aws_autoscaling_group.this["api"].health_check_type == "EC2"
    error_message = "An outage of Redis must not replace the API's hosts."
  }
  assert {
    condition     = alltrue([for name, group in aws_autoscaling_group.this : (length(group.target_group_arns) == 1) == (name == "api")])
    error_message = "The load balancer leads to the API's hosts only."
  }
  assert {
    condition = aws_autoscaling_group.this["spot"].capacity_rebalance && aws_autoscaling_group.this["spot"].mixed_instances_policy[0].instances_distribution[0].on_demand_percentage_above_base_capacity == 0 && (
      !aws_autoscaling_group.this["default"].capacity_rebalance && aws_autoscaling_group.this["default"].mixed_instances_policy[0].instances_distribution[0].on_demand_percentage_above_base_capacity == 100
    )
    error_message = "Only the pool that asks for Spot is on Spot."
  }
  assert {
    condition     = aws_autoscaling_group.this["spot"].mixed_instances_policy[0].instances_distribution[0].spot_allocation_strategy == "price-capacity-optimized"
    error_message = "The default takes the cheapest capacity, which is interrupted most."
  }
  # infra/aws/host.sh gives the unit its grace and 30 s.
  assert {
    condition = alltrue([
      for name, hook in aws_autoscaling_lifecycle_hook.terminating :
      hook.heartbeat_timeout > local.groups[name].grace_seconds + 30 && hook.default_result == "CONTINUE" && hook.lifecycle_transition == "autoscaling:EC2_INSTANCE_TERMINATING"
    ])
    error_message = "A host has to have the time to drain."
  }
  assert {
    condition = alltrue([
      for hook in values(aws_autoscaling_lifecycle_hook.launching) : hook.default_result == "ABANDON" && hook.lifecycle_transition == "autoscaling:EC2_INSTANCE_LAUNCHING"
    ])
    error_message = "A host that does not come up has to be given up."
  }
}

run "user_data" {
  command = plan

  assert {
    condition     = alltrue([for template in values(aws_launch_template.this) : startswith(base64decode(template.user_data), "#cloud-config\n") && length(template.user_data) <= 16384])
    error_message = "User data has to be for cloud-init, of 16 KiB at most."
  }
  assert {
    condition = alltrue(flatten([
      for template in values(aws_launch_template.this) : [for secret in ["password-of", "rediss:", "TOKEN", "_KEY=", "AAAAAAAA", "0000000000000000000000000000000a"] : !strcontains(base64decode(template.user_data), secret)]
    ]))
    error_message = "A secret is in user data."
  }
  assert {
    condition = alltrue([for line in [
      "ROLE='worker'", "GROUP='glovebox-spot'", "GRACE_SECONDS='90'", "RELEASE_URL='s3://releases/glovebox/pack-amd64.tar.gz'", "REGION='eu-central-1'",
      "GLOVEBOX_GRACE_SECONDS='90'", "GLOVEBOX_CONCURRENCY='4'", "GLOVEBOX_LABELS='capacity=spot,size=small'", "GLOVEBOX_LABELS_ONLY='capacity'", "GLOVEBOX_S3_BUCKET='glovebox-123456789012-eu-central-1'", "GLOVEBOX_S3_REGION='eu-central-1'",
    ] : strcontains(base64decode(aws_launch_template.this["spot"].user_data), line)])
    error_message = "A worker lacks a setting."
  }
  assert {
    condition = alltrue([for line in [
      "ROLE='api'", "GLOVEBOX_API_ADDR='0.0.0.0:8437'", "GLOVEBOX_PUBLIC_URL='https://glovebox.example.com'", "GLOVEBOX_TRUSTED_PROXIES='10.80.0.0/20,10.80.16.0/20,10.80.32.0/20'",
    ] : strcontains(base64decode(aws_launch_template.this["api"].user_data), line)])
    error_message = "The API lacks a setting."
  }
  assert {
    condition     = yamldecode(base64decode(aws_launch_template.this["api"].user_data)).runcmd == [["/usr/local/sbin/glovebox-boot"]]
    error_message = "cloud-init has to run boot.sh."
  }
}

run "fixed_sizes" {
  command = plan

  assert {
    condition     = length(aws_autoscaling_policy.workers) == 0
    error_message = "Without a metric nothing scales."
  }
}

run "autoscale" {
  command = plan
  variables {
    autoscale = { spot = { slots = 4 }, default = { slots = 8, clear_seconds = 300, sessions = 40 } }
  }

  assert {
    condition     = toset(keys(aws_autoscaling_policy.workers)) == toset(["default", "spot"])
    error_message = "The pools that were named scale, and no other."
  }
  assert {
    condition = flatten([
      for m in aws_autoscaling_policy.workers["spot"].target_tracking_configuration[0].customized_metric_specification[0].metrics : [
        for stat in m.metric_stat : [for metric in stat.metric : "${stat.stat} ${metric.namespace} ${metric.metric_name} ${join(",", [for d in metric.dimensions : "${d.name}=${d.value}"])}"]
      ] if m.id == "wanted"
    ]) == ["Maximum Glovebox/glovebox WantedWorkers Pool=spot"]
    error_message = "The policy has to read what infra/aws/autoscale.sh writes: the greatest of what the API's hosts say."
  }
  assert {
    condition = alltrue([for line in [
      "AUTOSCALE_NAMESPACE='Glovebox/glovebox'", "AUTOSCALE_POOLS='default common 8 1 4 180 300 40;spot capacity=spot 4 1 4 180 600 0'",
    ] : strcontains(base64decode(aws_launch_template.this["api"].user_data), line)])
    error_message = "The API's hosts have to know how to count."
  }
  assert {
    condition     = alltrue([for pool in ["default", "spot"] : !strcontains(base64decode(aws_launch_template.this[pool].user_data), "AUTOSCALE_")])
    error_message = "Workers don't count themselves."
  }
  assert {
    condition     = toset(keys(aws_vpc_endpoint.interface)) == toset(["secretsmanager", "autoscaling", "monitoring"])
    error_message = "The API's hosts need a way to CloudWatch."
  }
}

run "autoscale_of_one" {
  command = plan
  variables {
    autoscale = { spot = { slots = 4 } }
  }

  assert {
    condition     = toset(keys(aws_autoscaling_policy.workers)) == toset(["spot"])
    error_message = "The pool that was named scales, and no other."
  }
}

run "autoscale_of_two_without_a_lock" {
  command = plan
  variables {
    workers   = { default = {}, spot = { labels = { capacity = "spot" } } }
    autoscale = { default = { slots = 4 }, spot = { slots = 4 } }
  }
  expect_failures = [var.autoscale]
}

run "autoscale_of_two_with_one_lock" {
  command = plan
  variables {
    workers = {
      default = { labels = { pool = "exams", zone = "a" }, only = ["pool"] }
      spot    = { labels = { pool = "exams", zone = "b" }, only = ["pool"] }
    }
    autoscale = { default = { slots = 4 }, spot = { slots = 4 } }
  }
  expect_failures = [var.autoscale]
}

run "scaling" {
  command = plan
  variables {
    wanted_workers_metric = { namespace = "Glovebox", name = "WantedWorkers" }
  }

  assert {
    condition     = toset(keys(aws_autoscaling_policy.workers)) == toset(["default", "spot"])
    error_message = "Each pool scales, the API doesn't."
  }
  assert {
    condition = (
      aws_autoscaling_policy.workers["spot"].target_tracking_configuration[0].target_value == 1
      && [for m in aws_autoscaling_policy.workers["spot"].target_tracking_configuration[0].customized_metric_specification[0].metrics : m.expression if m.return_data] == ["wanted / size"]
    )
    error_message = "The size has to follow wanted / size."
  }
}
