# What is in front of the API's hosts: a load balancer with TLS, and rate rules of WAF before
# it. No managed rules: they take programs for attacks, and refuse bodies above 8 KiB.

resource "aws_security_group" "lb" {
  name_prefix = "${var.name}-lb-"
  description = "Glovebox: load balancer"
  vpc_id      = local.vpc_id
  tags        = merge(local.tags, { Name = "${var.name}-lb" })

  lifecycle { create_before_destroy = true }
}

resource "aws_vpc_security_group_ingress_rule" "lb_https" {
  for_each = toset(var.api.client_cidrs)

  security_group_id = aws_security_group.lb.id
  description       = "Clients"
  cidr_ipv4         = each.key
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_vpc_security_group_ingress_rule" "lb_http" {
  for_each = toset(var.api.client_cidrs)

  security_group_id = aws_security_group.lb.id
  description       = "Clients, to be redirected to https"
  cidr_ipv4         = each.key
  ip_protocol       = "tcp"
  from_port         = 80
  to_port           = 80
}

resource "aws_vpc_security_group_egress_rule" "lb" {
  security_group_id            = aws_security_group.lb.id
  description                  = "The API's hosts"
  referenced_security_group_id = aws_security_group.hosts["api"].id
  ip_protocol                  = "tcp"
  from_port                    = local.api_port
  to_port                      = local.api_port
}

resource "aws_lb" "api" {
  name                       = var.name
  load_balancer_type         = "application"
  internal                   = false
  subnets                    = local.public_subnet_ids
  security_groups            = [aws_security_group.lb.id]
  drop_invalid_header_fields = true
  desync_mitigation_mode     = "defensive"
  enable_deletion_protection = var.api.deletion_protection
  # Above what the API holds a request open for: streams of events, waits, batches.
  idle_timeout = 400
  tags         = local.tags

  dynamic "access_logs" {
    for_each = var.api.access_logs_bucket == null ? [] : [var.api.access_logs_bucket]

    content {
      enabled = true
      bucket  = access_logs.value
      prefix  = var.name
    }
  }
}

resource "aws_lb_target_group" "api" {
  name                          = "${var.name}-api"
  port                          = local.api_port
  protocol                      = "HTTP"
  vpc_id                        = local.vpc_id
  load_balancing_algorithm_type = "least_outstanding_requests"
  # Above the grace of the API, in which it sends away those who wait.
  deregistration_delay = 30
  tags                 = local.tags

  health_check {
    path                = "/readyz"
    matcher             = "200"
    interval            = 10
    timeout             = 6
    healthy_threshold   = 2
    unhealthy_threshold = 3
  }
}

resource "aws_lb_listener" "https" {
  load_balancer_arn = aws_lb.api.arn
  port              = 443
  protocol          = "HTTPS"
  ssl_policy        = "ELBSecurityPolicy-TLS13-1-3-2021-06"
  certificate_arn   = var.api.certificate_arn
  tags              = local.tags

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.api.arn
  }
}

resource "aws_lb_listener" "http" {
  load_balancer_arn = aws_lb.api.arn
  port              = 80
  protocol          = "HTTP"
  tags              = local.tags

  default_action {
    type = "redirect"

    redirect {
      port        = "443"
      protocol    = "HTTPS"
      status_code = "HTTP_301"
    }
  }
}

#### WAF: the API has quotas for each tenant; these hold off what comes without a token, too.

resource "aws_wafv2_web_acl" "api" {
  name        = "${var.name}-api"
  description = "Glovebox: rates"
  scope       = "REGIONAL"
  tags        = local.tags

  default_action {
    allow {}
  }

  rule {
    name     = "rate-by-address"
    priority = 1

    action {
      block {
        custom_response {
          response_code = 429
        }
      }
    }

    statement {
      rate_based_statement {
        limit                 = var.api.requests_per_ip
        aggregate_key_type    = "IP"
        evaluation_window_sec = 300
      }
    }

    visibility_config {
      cloudwatch_metrics_enabled = true
      metric_name                = "${var.name}-rate-by-address"
      sampled_requests_enabled   = false
    }
  }

  # For tenants that share an address, and tokens that are used from many.
  rule {
    name     = "rate-by-token"
    priority = 2

    action {
      block {
        custom_response {
          response_code = 429
        }
      }
    }

    statement {
      rate_based_statement {
        limit                 = var.api.requests_per_token
        aggregate_key_type    = "CUSTOM_KEYS"
        evaluation_window_sec = 300

        custom_key {
          header {
            name = "authorization"

            text_transformation {
              priority = 0
              type     = "NONE"
            }
          }
        }
      }
    }

    visibility_config {
      cloudwatch_metrics_enabled = true
      metric_name                = "${var.name}-rate-by-token"
      sampled_requests_enabled   = false
    }
  }

  # Samples would hold tokens.
  visibility_config {
    cloudwatch_metrics_enabled = true
    metric_name                = "${var.name}-api"
    sampled_requests_enabled   = false
  }
}

resource "aws_wafv2_web_acl_association" "api" {
  resource_arn = aws_lb.api.arn
  web_acl_arn  = aws_wafv2_web_acl.api.arn
}
