# How many workers a pool has: min_size, unless a metric says how many are wanted. Length of
# the queue is no such metric: a tenant's backlog is not in it (docs/adr/0007-backlog.md).

locals {
  # What infra/aws/autoscale.sh writes on the API's hosts, or what somebody else does.
  wanted_metric = length(var.autoscale) == 0 ? var.wanted_workers_metric : { namespace = "Glovebox/${var.name}", name = "WantedWorkers" }
  scaled_pools  = local.wanted_metric == null ? [] : length(var.autoscale) == 0 ? keys(var.workers) : keys(var.autoscale)
  # By which labels `glovebox autoscale` counts the jobs of each.
  counted_by = {
    for pool in keys(var.autoscale) : pool => length(var.workers[pool].only) == 0 ? "common" : join(",", [for label in sort(var.workers[pool].only) : "${label}=${var.workers[pool].labels[label]}"])
  }
}

resource "aws_autoscaling_policy" "workers" {
  for_each = toset(local.scaled_pools)

  name                   = "wanted-workers"
  autoscaling_group_name = aws_autoscaling_group.this[each.key].name
  policy_type            = "TargetTrackingScaling"

  # Target tracking multiplies the group's size by metric ÷ target, so wanted ÷ size with the
  # target 1 makes the size what is wanted. It scales out after three minutes, in after fifteen.
  target_tracking_configuration {
    target_value = 1

    customized_metric_specification {
      metrics {
        id          = "wanted"
        label       = "Workers that the pool should have"
        return_data = false

        metric_stat {
          stat = "Maximum"

          metric {
            namespace   = local.wanted_metric.namespace
            metric_name = local.wanted_metric.name

            dimensions {
              name  = "Pool"
              value = each.key
            }
          }
        }
      }

      metrics {
        id          = "size"
        label       = "Workers that the pool has"
        return_data = false

        metric_stat {
          stat = "Average"

          metric {
            namespace   = "AWS/AutoScaling"
            metric_name = "GroupInServiceInstances"

            dimensions {
              name  = "AutoScalingGroupName"
              value = "${var.name}-${each.key}"
            }
          }
        }
      }

      metrics {
        id          = "ratio"
        label       = "Wanted ÷ size"
        expression  = "wanted / size"
        return_data = true
      }
    }
  }
}
