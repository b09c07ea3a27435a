# The VPC, made here or brought along, and who may talk to whom in it. Nothing but the load
# balancer has a public address, and nothing but it can be reached from outside.

locals {
  own_vpc = var.network.vpc_id == null
  zones   = local.own_vpc ? slice(data.aws_availability_zones.available.names, 0, var.network.zones) : []

  vpc_id            = local.own_vpc ? aws_vpc.this[0].id : var.network.vpc_id
  vpc_cidr          = local.own_vpc ? var.network.cidr : data.aws_vpc.given[0].cidr_block
  public_subnet_ids = local.own_vpc ? values(aws_subnet.public)[*].id : var.network.public_subnet_ids
  api_subnet_ids    = local.own_vpc ? values(aws_subnet.api)[*].id : var.network.api_subnet_ids
  worker_subnet_ids = local.own_vpc ? values(aws_subnet.workers)[*].id : var.network.worker_subnet_ids

  # Where the load balancer's addresses are: the API believes what they say of the client's.
  public_cidrs = local.own_vpc ? [for i, zone in local.zones : cidrsubnet(var.network.cidr, 4, i)] : values(data.aws_subnet.public)[*].cidr_block

  nat_zones = local.own_vpc ? { none = [], one = slice(local.zones, 0, 1), zones = local.zones }[var.network.nat] : []
}

data "aws_availability_zones" "available" {
  state = "available"

  filter {
    name   = "opt-in-status"
    values = ["opt-in-not-required"]
  }
}

data "aws_vpc" "given" {
  count = local.own_vpc ? 0 : 1

  id = var.network.vpc_id
}

data "aws_subnet" "public" {
  for_each = local.own_vpc ? [] : toset(var.network.public_subnet_ids)

  id = each.value
}

resource "aws_vpc" "this" {
  count = local.own_vpc ? 1 : 0

  cidr_block           = var.network.cidr
  enable_dns_hostnames = true
  tags                 = merge(local.tags, { Name = var.name })
}

# Without rules: nobody uses it by mistake.
resource "aws_default_security_group" "this" {
  count = local.own_vpc ? 1 : 0

  vpc_id = aws_vpc.this[0].id
  tags   = merge(local.tags, { Name = "${var.name}-unused" })
}

#### Subnets: the load balancer's and NAT's, the API's, and the workers', where Redis is, too.

resource "aws_subnet" "public" {
  for_each = { for i, zone in local.zones : zone => cidrsubnet(var.network.cidr, 4, i) }

  vpc_id            = aws_vpc.this[0].id
  availability_zone = each.key
  cidr_block        = each.value
  tags              = merge(local.tags, { Name = "${var.name}-public-${each.key}" })
}

resource "aws_subnet" "api" {
  for_each = { for i, zone in local.zones : zone => cidrsubnet(var.network.cidr, 4, 4 + i) }

  vpc_id            = aws_vpc.this[0].id
  availability_zone = each.key
  cidr_block        = each.value
  tags              = merge(local.tags, { Name = "${var.name}-api-${each.key}" })
}

resource "aws_subnet" "workers" {
  for_each = { for i, zone in local.zones : zone => cidrsubnet(var.network.cidr, 4, 8 + i) }

  vpc_id            = aws_vpc.this[0].id
  availability_zone = each.key
  cidr_block        = each.value
  tags              = merge(local.tags, { Name = "${var.name}-workers-${each.key}" })
}

#### Ways out

resource "aws_internet_gateway" "this" {
  count = local.own_vpc ? 1 : 0

  vpc_id = aws_vpc.this[0].id
  tags   = merge(local.tags, { Name = var.name })
}

resource "aws_route_table" "public" {
  count = local.own_vpc ? 1 : 0

  vpc_id = aws_vpc.this[0].id
  tags   = merge(local.tags, { Name = "${var.name}-public" })
}

resource "aws_route" "public" {
  count = local.own_vpc ? 1 : 0

  route_table_id         = aws_route_table.public[0].id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this[0].id
}

resource "aws_route_table_association" "public" {
  for_each = aws_subnet.public

  subnet_id      = each.value.id
  route_table_id = aws_route_table.public[0].id
}

resource "aws_eip" "nat" {
  for_each = toset(local.nat_zones)

  domain = "vpc"
  tags   = merge(local.tags, { Name = "${var.name}-nat-${each.key}" })
}

resource "aws_nat_gateway" "this" {
  for_each = toset(local.nat_zones)

  allocation_id = aws_eip.nat[each.key].id
  subnet_id     = aws_subnet.public[each.key].id
  tags          = merge(local.tags, { Name = "${var.name}-${each.key}" })

  depends_on = [aws_internet_gateway.this]
}

resource "aws_route_table" "api" {
  for_each = toset(local.zones)

  vpc_id = aws_vpc.this[0].id
  tags   = merge(local.tags, { Name = "${var.name}-api-${each.key}" })
}

resource "aws_route_table_association" "api" {
  for_each = aws_subnet.api

  subnet_id      = each.value.id
  route_table_id = aws_route_table.api[each.key].id
}

resource "aws_route" "api" {
  for_each = length(local.nat_zones) == 0 ? [] : toset(local.zones)

  route_table_id         = aws_route_table.api[each.key].id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.this[contains(local.nat_zones, each.key) ? each.key : local.nat_zones[0]].id
}

resource "aws_route_table" "workers" {
  for_each = toset(local.zones)

  vpc_id = aws_vpc.this[0].id
  tags   = merge(local.tags, { Name = "${var.name}-workers-${each.key}" })
}

resource "aws_route_table_association" "workers" {
  for_each = aws_subnet.workers

  subnet_id      = each.value.id
  route_table_id = aws_route_table.workers[each.key].id
}

# Workers have a way out only to fetch packages as they boot.
resource "aws_route" "workers" {
  for_each = length(local.nat_zones) == 0 || var.ami.packages_installed ? [] : toset(local.zones)

  route_table_id         = aws_route_table.workers[each.key].id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.this[contains(local.nat_zones, each.key) ? each.key : local.nat_zones[0]].id
}
