# What hosts reach of AWS without a way out of the VPC: the bucket and the release, their
# secret, their group's lifecycle hooks, and with autoscale the metric of it.

locals {
  interface_endpoints = merge(
    {
      secretsmanager = {
        action    = "secretsmanager:GetSecretValue"
        resources = [for secret in aws_secretsmanager_secret.settings : secret.arn]
      }
      autoscaling = {
        action    = "autoscaling:CompleteLifecycleAction"
        resources = values(local.group_arns)
      }
    },
    length(var.autoscale) == 0 ? {} : {
      monitoring = {
        action    = "cloudwatch:PutMetricData"
        resources = ["*"] # metrics have no ARN
      }
    },
  )
}

resource "aws_vpc_endpoint" "s3" {
  count = local.own_vpc ? 1 : 0

  vpc_id            = aws_vpc.this[0].id
  service_name      = "com.amazonaws.${local.region}.s3"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = concat(values(aws_route_table.api)[*].id, values(aws_route_table.workers)[*].id)
  tags              = merge(local.tags, { Name = "${var.name}-s3" })

  # Principal "*" is any who is here already: what they may do, their own role says.
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [{
        Sid       = "OwnBucket"
        Effect    = "Allow"
        Principal = "*"
        Action    = distinct(concat(local.bucket_actions.api, local.object_actions.api))
        Resource  = [local.bucket_arn, "${local.bucket_arn}/*"]
      }],
      local.release_arn == null ? [] : [{
        Sid       = "Release"
        Effect    = "Allow"
        Principal = "*"
        Action    = ["s3:GetObject"]
        Resource  = [local.release_arn]
      }],
    )
  })
}

resource "aws_vpc_endpoint" "interface" {
  for_each = { for service, allowed in local.interface_endpoints : service => allowed if local.own_vpc }

  vpc_id              = aws_vpc.this[0].id
  service_name        = "com.amazonaws.${local.region}.${each.key}"
  vpc_endpoint_type   = "Interface"
  subnet_ids          = values(aws_subnet.workers)[*].id
  security_group_ids  = [aws_security_group.endpoints[0].id]
  private_dns_enabled = true
  tags                = merge(local.tags, { Name = "${var.name}-${each.key}" })

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "Hosts"
      Effect    = "Allow"
      Principal = "*"
      Action    = [each.value.action]
      Resource  = each.value.resources
    }]
  })
}

resource "aws_security_group" "endpoints" {
  count = local.own_vpc ? 1 : 0

  name_prefix = "${var.name}-endpoints-"
  description = "Glovebox: endpoints of AWS services"
  vpc_id      = local.vpc_id
  tags        = merge(local.tags, { Name = "${var.name}-endpoints" })

  lifecycle { create_before_destroy = true }
}

resource "aws_vpc_security_group_ingress_rule" "endpoints" {
  for_each = local.own_vpc ? local.roles : []

  security_group_id            = aws_security_group.endpoints[0].id
  description                  = "From hosts of role ${each.key}"
  referenced_security_group_id = aws_security_group.hosts[each.key].id
  ip_protocol                  = "tcp"
  from_port                    = 443
  to_port                      = 443
}
