# Alarms on what AWS itself counts. infra/prometheus/rules.yml knows more, and README.md says
# which alert has an alarm here, and which needs a Prometheus.

locals {
  lb_dimensions     = { LoadBalancer = aws_lb.api.arn_suffix }
  target_dimensions = { LoadBalancer = aws_lb.api.arn_suffix, TargetGroup = aws_lb_target_group.api.arn_suffix }
  redis_nodes       = [for i in range(var.redis.nodes) : format("%s-%03d", var.name, i + 1)]

  redis_alarms = merge([
    for node in local.redis_nodes : {
      "${node}-memory" = {
        node        = node
        metric      = "DatabaseMemoryUsagePercentage"
        threshold   = 75
        minutes     = 5
        description = "Valkey's node ${node} is three quarters full: at its end it refuses writes, so jobs are refused and results can't be recorded."
      }
      "${node}-cpu" = {
        node        = node
        metric      = "EngineCPUUtilization"
        threshold   = 80
        minutes     = 10
        description = "Valkey's node ${node} is busy: everything that takes or ends jobs slows down."
      }
      "${node}-lag" = {
        node        = node
        metric      = "ReplicationLag"
        threshold   = 2
        minutes     = 5
        description = "Valkey's node ${node} is seconds behind: a failover now would lose that much."
      }
    }
  ]...)
}

resource "aws_cloudwatch_metric_alarm" "redis" {
  for_each = local.redis_alarms

  alarm_name          = each.key
  alarm_description   = each.value.description
  namespace           = "AWS/ElastiCache"
  metric_name         = each.value.metric
  dimensions          = { CacheClusterId = each.value.node }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = each.value.minutes
  comparison_operator = "GreaterThanThreshold"
  threshold           = each.value.threshold
  # The primary has no lag to speak of.
  treat_missing_data = endswith(each.key, "-lag") ? "notBreaching" : "missing"
  alarm_actions      = var.alarm_actions
  ok_actions         = var.alarm_actions
  tags               = local.tags
}

resource "aws_cloudwatch_metric_alarm" "api_none" {
  alarm_name          = "${var.name}-api-none"
  alarm_description   = "GloveboxRedisDown, GloveboxProcessDown: no API host is ready. Redis or the bucket are away, or all processes."
  namespace           = "AWS/ApplicationELB"
  metric_name         = "HealthyHostCount"
  dimensions          = local.target_dimensions
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 1
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  treat_missing_data  = "breaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = local.tags
}

resource "aws_cloudwatch_metric_alarm" "api_unready" {
  alarm_name          = "${var.name}-api-unready"
  alarm_description   = "GloveboxProcessDown: an API host is not ready. Its /readyz says why."
  namespace           = "AWS/ApplicationELB"
  metric_name         = "UnHealthyHostCount"
  dimensions          = local.target_dimensions
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = local.tags
}

# Health checks don't count among the load balancer's requests.
resource "aws_cloudwatch_metric_alarm" "api_errors" {
  alarm_name          = "${var.name}-api-errors"
  alarm_description   = "GloveboxAPIErrors: more than 5 % of answers are 5xx. The API's log has the reason of each."
  evaluation_periods  = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 5
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = local.tags

  metric_query {
    id          = "share"
    label       = "5xx, percent"
    expression  = "IF(requests > 0, 100 * (FILL(target, 0) + FILL(balancer, 0)) / requests, 0)"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = {
      requests = "RequestCount"
      target   = "HTTPCode_Target_5XX_Count"
      balancer = "HTTPCode_ELB_5XX_Count"
    }

    content {
      id          = metric_query.key
      return_data = false

      metric {
        namespace   = "AWS/ApplicationELB"
        metric_name = metric_query.value
        dimensions  = local.lb_dimensions
        stat        = "Sum"
        period      = 60
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "group_small" {
  for_each = { for name, group in local.groups : name => group if group.min_size > 0 }

  alarm_name          = "${var.name}-${each.key}-small"
  alarm_description   = "GloveboxProcessDown, GloveboxNoWorker: fewer hosts of ${each.key} than its min_size. Those that start say in /var/log/cloud-init-output.log what fails."
  namespace           = "AWS/AutoScaling"
  metric_name         = "GroupInServiceInstances"
  dimensions          = { AutoScalingGroupName = "${var.name}-${each.key}" }
  statistic           = "Minimum"
  period              = 60
  evaluation_periods  = 15
  comparison_operator = "LessThanThreshold"
  threshold           = each.value.min_size
  treat_missing_data  = "breaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = local.tags
}
