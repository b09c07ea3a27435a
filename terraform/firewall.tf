# Security groups of hosts, by role: what each reaches, and who reaches it. Names of other
# machines are resolved by the VPC itself, which no group filters.

locals {
  roles = toset(["api", "worker"])

  # Package mirrors, and a release that is no s3://. An image that has the packages does without.
  fetches = !var.ami.packages_installed || startswith(var.release.url, "https://")
  internet_ports = {
    api    = distinct(concat(var.api.webhook_ports, local.fetches ? [80, 443] : []))
    worker = local.fetches ? [80, 443] : []
  }
  internet = merge([
    for role, ports in local.internet_ports : { for port in ports : "${role}-${port}" => { role = role, port = port } }
  ]...)
}

data "aws_ec2_managed_prefix_list" "s3" {
  name = "com.amazonaws.${local.region}.s3"
}

resource "aws_security_group" "hosts" {
  for_each = local.roles

  name_prefix = "${var.name}-${each.key}-"
  description = "Glovebox: hosts of role ${each.key}"
  vpc_id      = local.vpc_id
  tags        = merge(local.tags, { Name = "${var.name}-${each.key}" })

  lifecycle { create_before_destroy = true }
}

resource "aws_vpc_security_group_ingress_rule" "api" {
  security_group_id            = aws_security_group.hosts["api"].id
  description                  = "Requests, from the load balancer"
  referenced_security_group_id = aws_security_group.lb.id
  ip_protocol                  = "tcp"
  from_port                    = local.api_port
  to_port                      = local.api_port
}

resource "aws_vpc_security_group_ingress_rule" "metrics" {
  for_each = var.metrics_security_group_id == null ? [] : local.roles

  security_group_id            = aws_security_group.hosts[each.key].id
  description                  = "Prometheus"
  referenced_security_group_id = var.metrics_security_group_id
  ip_protocol                  = "tcp"
  from_port                    = local.metrics_port
  to_port                      = local.metrics_port
}

resource "aws_vpc_security_group_egress_rule" "redis" {
  for_each = local.roles

  security_group_id            = aws_security_group.hosts[each.key].id
  description                  = "Valkey"
  referenced_security_group_id = aws_security_group.redis.id
  ip_protocol                  = "tcp"
  from_port                    = local.redis_port
  to_port                      = local.redis_port
}

resource "aws_vpc_security_group_egress_rule" "s3" {
  for_each = local.roles

  security_group_id = aws_security_group.hosts[each.key].id
  description       = "S3, by its gateway endpoint"
  prefix_list_id    = data.aws_ec2_managed_prefix_list.s3.id
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_vpc_security_group_egress_rule" "endpoints" {
  for_each = local.roles

  security_group_id = aws_security_group.hosts[each.key].id
  description       = "Endpoints of Secrets Manager and Auto Scaling in the VPC"
  cidr_ipv4         = local.vpc_cidr
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_vpc_security_group_egress_rule" "internet" {
  for_each = local.internet

  security_group_id = aws_security_group.hosts[each.value.role].id
  description       = each.value.role == "api" ? "Receivers of webhooks, package mirrors" : "Package mirrors, as a host boots"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = each.value.port
  to_port           = each.value.port
}
