# What the API's hosts and the workers' have in common: a launch template and an Auto Scaling
# group each, security groups by role, and the two hooks by which a host says that it is ready
# and that it has drained. None has a public address, a key pair or an open port but its own.

locals {
  image = coalesce(var.ami.ssm_parameter, "/aws/service/debian/release/13/latest/${var.architecture}")
  # The ARN holds an id that only AWS knows: the name alone tells them apart.
  group_arns = {
    for name in keys(local.groups) : name =>
    "arn:${local.partition}:autoscaling:${local.region}:${local.account}:autoScalingGroup:*:autoScalingGroupName/${var.name}-${name}"
  }
  heartbeat_seconds = { for name, group in local.groups : name => group.grace_seconds + 60 }

  # /etc/glovebox/aws.env: what infra/aws/*.sh and boot.sh read.
  host_env = {
    for name, group in local.groups : name => merge(
      {
        REGION           = local.region
        ROLE             = group.role
        GROUP            = "${var.name}-${name}"
        LAUNCHING_HOOK   = "launching"
        TERMINATING_HOOK = "terminating"
        GRACE_SECONDS    = tostring(group.grace_seconds)
        SECRET_ARN       = aws_secretsmanager_secret.settings[name].arn
        RELEASE_URL      = var.release.url
        RELEASE_SHA256   = var.release.sha256
      },
      length(var.autoscale) == 0 || group.role != "api" ? {} : {
        AUTOSCALE_NAMESPACE = local.wanted_metric.namespace
        # Of each pool: name, labels, slots, least, most, seconds of boot, seconds to be done within, sessions.
        AUTOSCALE_POOLS = join(";", [for pool, follows in var.autoscale : join(" ", [
          pool, local.counted_by[pool], follows.slots, var.workers[pool].min_size, var.workers[pool].max_size, follows.boot_seconds, follows.clear_seconds, follows.sessions,
        ])])
      },
    )
  }

  # No secret is in it: whoever may describe the launch template reads it.
  user_data = {
    for name, group in local.groups : name => join("\n", ["#cloud-config", yamlencode({
      write_files = [
        {
          path        = "/etc/glovebox/aws.env"
          permissions = "0644"
          content     = join("", [for key, value in local.host_env[name] : "${key}='${value}'\n"])
        },
        {
          path        = "/etc/glovebox/${group.role}.env"
          permissions = "0600"
          content     = join("", [for key, value in group.settings : "${key}='${value}'\n"])
        },
        {
          path        = "/usr/local/sbin/glovebox-boot"
          permissions = "0755"
          encoding    = "b64"
          content     = filebase64("${path.module}/templates/boot.sh")
        },
      ]
      runcmd = [["/usr/local/sbin/glovebox-boot"]]
    })])
  }
}

resource "aws_launch_template" "this" {
  for_each = local.groups

  name                                 = "${var.name}-${each.key}"
  description                          = "Glovebox ${var.name}: ${each.key}"
  image_id                             = "resolve:ssm:${local.image}"
  user_data                            = base64encode(local.user_data[each.key])
  update_default_version               = true
  instance_initiated_shutdown_behavior = "terminate"
  tags                                 = local.tags

  iam_instance_profile {
    arn = aws_iam_instance_profile.this[each.key].arn
  }

  # One hop: what forwards packets on the host gets no credentials. Sandboxes have no network at all.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
    instance_metadata_tags      = "disabled"
  }

  network_interfaces {
    associate_public_ip_address = false
    delete_on_termination       = true
    security_groups             = [aws_security_group.hosts[each.value.role].id]
  }

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      encrypted             = true
      volume_type           = "gp3"
      volume_size           = each.value.disk_gib
      delete_on_termination = true
    }
  }

  dynamic "tag_specifications" {
    for_each = toset(["instance", "volume", "network-interface"])

    content {
      resource_type = tag_specifications.key
      tags = merge(local.tags, { Name = "${var.name}-${each.key}", GloveboxPool = each.key }, {
        for label, value in each.value.labels : "glovebox:${label}" => value
      })
    }
  }

  lifecycle {
    precondition {
      condition     = length(base64encode(local.user_data[each.key])) <= 16384
      error_message = "The user data of ${each.key} is over 16 KiB: its settings are too long."
    }
  }
}

resource "aws_autoscaling_group" "this" {
  for_each = local.groups

  name                = "${var.name}-${each.key}"
  min_size            = each.value.min_size
  max_size            = each.value.max_size
  vpc_zone_identifier = each.value.role == "api" ? local.api_subnet_ids : local.worker_subnet_ids
  target_group_arns   = each.value.role == "api" ? [aws_lb_target_group.api.arn] : []

  # Not ELB: /readyz of every API host says no while Redis is away, and new hosts would not help.
  health_check_type         = "EC2"
  health_check_grace_period = 0
  default_instance_warmup   = 30
  wait_for_capacity_timeout = "0"
  capacity_rebalance        = each.value.spot
  enabled_metrics           = ["GroupInServiceInstances", "GroupDesiredCapacity"]

  # A host that finds no secret when it boots, or no user in Redis, is given up.
  depends_on = [aws_secretsmanager_secret_version.settings]

  # No desired_capacity: it is the group's min_size until scaling says otherwise.
  mixed_instances_policy {
    instances_distribution {
      on_demand_percentage_above_base_capacity = each.value.spot ? 0 : 100
      spot_allocation_strategy                 = "price-capacity-optimized"
    }

    launch_template {
      launch_template_specification {
        launch_template_id = aws_launch_template.this[each.key].id
        version            = aws_launch_template.this[each.key].latest_version
      }

      dynamic "override" {
        for_each = each.value.instance_types

        content {
          instance_type = override.value
        }
      }
    }
  }

  instance_refresh {
    strategy = "Rolling"

    preferences {
      min_healthy_percentage = 100
      max_healthy_percentage = 110
      skip_matching          = true
      auto_rollback          = false
    }
  }

  dynamic "tag" {
    for_each = local.tags

    content {
      key                 = tag.key
      value               = tag.value
      propagate_at_launch = false
    }
  }
}

# A host counts once boot.sh has set it up, and what it is for runs there; one on which that fails is replaced.
resource "aws_autoscaling_lifecycle_hook" "launching" {
  for_each = local.groups

  name                   = "launching"
  autoscaling_group_name = aws_autoscaling_group.this[each.key].name
  lifecycle_transition   = "autoscaling:EC2_INSTANCE_LAUNCHING"
  heartbeat_timeout      = 1800
  default_result         = "ABANDON"
}

# A host goes once infra/aws/drain.sh has drained it.
resource "aws_autoscaling_lifecycle_hook" "terminating" {
  for_each = local.groups

  name                   = "terminating"
  autoscaling_group_name = aws_autoscaling_group.this[each.key].name
  lifecycle_transition   = "autoscaling:EC2_INSTANCE_TERMINATING"
  heartbeat_timeout      = local.heartbeat_seconds[each.key]
  default_result         = "CONTINUE"
}
