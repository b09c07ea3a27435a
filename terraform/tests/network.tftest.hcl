# Who may reach whom, and what has an address.
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

run "made_vpc" {
  command = plan

  assert {
    condition     = alltrue([for template in values(aws_launch_template.this) : alltrue([for interface in template.network_interfaces : tobool(interface.associate_public_ip_address) == false])])
    error_message = "A host has a public address."
  }
  assert {
    condition     = alltrue([for subnet in concat(values(aws_subnet.public), values(aws_subnet.api), values(aws_subnet.workers)) : subnet.map_public_ip_on_launch != true])
    error_message = "A subnet gives out public addresses."
  }
  assert {
    condition     = length(aws_subnet.public) == 3 && length(aws_subnet.api) == 3 && length(aws_subnet.workers) == 3
    error_message = "Want each kind of subnet in each of three zones."
  }
  assert {
    condition     = length(distinct([for subnet in concat(values(aws_subnet.public), values(aws_subnet.api), values(aws_subnet.workers)) : subnet.cidr_block])) == 9
    error_message = "Subnets share addresses."
  }
  # Every ingress rule of the module: a Go test knows when one is missing here.
  assert {
    condition = alltrue([
      for rule in concat(
        [aws_vpc_security_group_ingress_rule.api],
        values(aws_vpc_security_group_ingress_rule.metrics),
        values(aws_vpc_security_group_ingress_rule.redis),
        values(aws_vpc_security_group_ingress_rule.endpoints),
      ) : rule.cidr_ipv4 == null && rule.cidr_ipv6 == null && rule.prefix_list_id == null && rule.referenced_security_group_id != null
    ])
    error_message = "Something other than the load balancer can be reached by address."
  }
  assert {
    condition = alltrue([
      for rule in values(aws_vpc_security_group_ingress_rule.lb_https) : rule.from_port == 443 && rule.to_port == 443
      ]) && alltrue([
      for rule in values(aws_vpc_security_group_ingress_rule.lb_http) : rule.from_port == 80 && rule.to_port == 80
    ])
    error_message = "The load balancer has to be reached at 443, and at 80 for the redirect, and nowhere else."
  }
  assert {
    condition     = aws_lb_listener.http.default_action[0].type == "redirect" && aws_lb_listener.https.protocol == "HTTPS"
    error_message = "Port 80 has to redirect, port 443 to speak TLS."
  }
  # To every address: receivers of webhooks, and package mirrors where the image lacks the packages.
  assert {
    condition = alltrue([
      for rule in concat(
        values(aws_vpc_security_group_egress_rule.redis),
        values(aws_vpc_security_group_egress_rule.s3),
        values(aws_vpc_security_group_egress_rule.endpoints),
        [aws_vpc_security_group_egress_rule.lb],
      ) : rule.cidr_ipv4 == null || rule.cidr_ipv4 == "10.80.0.0/16"
    ])
    error_message = "A rule out of the VPC is not among aws_vpc_security_group_egress_rule.internet."
  }
  assert {
    condition     = toset(keys(aws_vpc_security_group_egress_rule.internet)) == toset(["api-443", "api-80", "worker-443", "worker-80"])
    error_message = "Hosts reach the internet at 80 and 443 only."
  }
  assert {
    condition     = length(aws_nat_gateway.this) == 1 && length(aws_route.api) == 3 && length(aws_route.workers) == 3
    error_message = "Want one NAT gateway, and a route to it from each private subnet."
  }
  assert {
    condition     = aws_vpc_endpoint.s3[0].vpc_endpoint_type == "Gateway" && length(aws_vpc_endpoint.s3[0].route_table_ids) > 0
    error_message = "S3 has to be reached by a gateway endpoint."
  }
  assert {
    condition     = toset(keys(aws_vpc_endpoint.interface)) == toset(["secretsmanager", "autoscaling"])
    error_message = "Want endpoints of Secrets Manager and Auto Scaling."
  }
}

run "packages_installed" {
  command = plan
  variables {
    network = { nat = "zones" }
    ami     = { ssm_parameter = "/glovebox/ami", packages_installed = true }
  }

  assert {
    condition     = toset(keys(aws_vpc_security_group_egress_rule.internet)) == toset(["api-443"]) && length(aws_route.workers) == 0
    error_message = "Workers whose image has the packages have no way out of the VPC."
  }
  assert {
    condition     = length(aws_nat_gateway.this) == 3 && length(aws_route.api) == 3
    error_message = "Want a NAT gateway in each zone."
  }
}

run "no_nat" {
  command = plan
  variables {
    network = {}
    ami     = { ssm_parameter = "/glovebox/ami", packages_installed = true }
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 0 && length(aws_eip.nat) == 0 && length(aws_route.api) == 0 && length(aws_route.workers) == 0
    error_message = "There is NAT that nobody asked for."
  }
}

run "given_vpc" {
  command = plan
  variables {
    network = {
      vpc_id            = "vpc-00000000000000001"
      public_subnet_ids = ["subnet-00000000000000001", "subnet-00000000000000002"]
      api_subnet_ids    = ["subnet-00000000000000003", "subnet-00000000000000004"]
      worker_subnet_ids = ["subnet-00000000000000005", "subnet-00000000000000006"]
    }
  }

  assert {
    condition = alltrue([for made in [
      aws_vpc.this, aws_internet_gateway.this, aws_default_security_group.this, aws_route_table.public, aws_vpc_endpoint.s3, aws_security_group.endpoints,
    ] : length(made) == 0]) && length(aws_subnet.public) + length(aws_subnet.api) + length(aws_subnet.workers) + length(aws_vpc_endpoint.interface) + length(aws_vpc_security_group_ingress_rule.endpoints) == 0
    error_message = "A VPC that was given gets no parts of another."
  }
  assert {
    condition     = aws_autoscaling_group.this["default"].vpc_zone_identifier == toset(["subnet-00000000000000005", "subnet-00000000000000006"]) && toset(aws_lb.api.subnets) == toset(["subnet-00000000000000001", "subnet-00000000000000002"])
    error_message = "Hosts and load balancer have to be in the subnets that were named."
  }
  assert {
    condition     = aws_vpc_security_group_egress_rule.endpoints["worker"].cidr_ipv4 == "10.9.0.0/16"
    error_message = "Endpoints are looked for in the given VPC."
  }
}

run "metrics" {
  command = plan
  variables {
    metrics_security_group_id = "sg-0123456789abcdef1"
  }

  assert {
    condition = length(aws_vpc_security_group_ingress_rule.metrics) == 2 && alltrue([
      for rule in values(aws_vpc_security_group_ingress_rule.metrics) : rule.referenced_security_group_id == "sg-0123456789abcdef1" && rule.from_port == 8438
    ])
    error_message = "Only Prometheus may read metrics."
  }
  assert {
    condition     = strcontains(base64decode(aws_launch_template.this["default"].user_data), "GLOVEBOX_METRICS_ADDR='0.0.0.0:8438'")
    error_message = "Workers have to serve metrics."
  }
}
