# What AWS would answer, as far as the provider checks its form.

mock_data "aws_partition" {
  defaults = { partition = "aws" }
}
mock_data "aws_caller_identity" {
  defaults = { account_id = "123456789012" }
}
mock_data "aws_region" {
  defaults = { region = "eu-central-1" }
}
mock_data "aws_availability_zones" {
  defaults = { names = ["eu-central-1a", "eu-central-1b", "eu-central-1c"] }
}
mock_data "aws_ec2_managed_prefix_list" {
  defaults = { id = "pl-0123456789abcdef0" }
}
mock_data "aws_vpc" {
  defaults = { cidr_block = "10.9.0.0/16" }
}
mock_data "aws_subnet" {
  defaults = { cidr_block = "10.9.1.0/24" }
}

mock_resource "aws_kms_key" {
  defaults = {
    arn    = "arn:aws:kms:eu-central-1:123456789012:key/00000000-0000-0000-0000-000000000001"
    key_id = "00000000-0000-0000-0000-000000000001"
  }
}
mock_resource "aws_secretsmanager_secret" {
  defaults = {
    arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:glovebox/x-AbCdEf"
    id  = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:glovebox/x-AbCdEf"
  }
}
mock_resource "aws_iam_role" {
  defaults = { arn = "arn:aws:iam::123456789012:role/glovebox" }
}
mock_resource "aws_iam_instance_profile" {
  defaults = { arn = "arn:aws:iam::123456789012:instance-profile/glovebox" }
}
mock_resource "aws_launch_template" {
  defaults = {
    id             = "lt-0123456789abcdef0"
    latest_version = 1
  }
}
mock_resource "aws_lb" {
  defaults = {
    arn        = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/app/glovebox/0123456789abcdef"
    arn_suffix = "app/glovebox/0123456789abcdef"
  }
}
mock_resource "aws_lb_target_group" {
  defaults = {
    arn        = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/glovebox-api/0123456789abcdef"
    arn_suffix = "targetgroup/glovebox-api/0123456789abcdef"
  }
}
mock_resource "aws_lb_listener" {
  defaults = { arn = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:listener/app/glovebox/0123456789abcdef/0123456789abcdef" }
}
mock_resource "aws_wafv2_web_acl" {
  defaults = { arn = "arn:aws:wafv2:eu-central-1:123456789012:regional/webacl/glovebox-api/00000000-0000-0000-0000-000000000002" }
}
mock_resource "aws_vpc" {
  defaults = { id = "vpc-0123456789abcdef0" }
}
mock_resource "aws_subnet" {
  defaults = { id = "subnet-0123456789abcdef0" }
}
mock_resource "aws_security_group" {
  defaults = { id = "sg-0123456789abcdef0" }
}
mock_resource "aws_route_table" {
  defaults = { id = "rtb-0123456789abcdef0" }
}
mock_resource "aws_internet_gateway" {
  defaults = { id = "igw-0123456789abcdef0" }
}
mock_resource "aws_nat_gateway" {
  defaults = { id = "nat-0123456789abcdef0" }
}
mock_resource "aws_eip" {
  defaults = {
    id        = "eipalloc-0123456789abcdef0"
    public_ip = "203.0.113.7"
  }
}
mock_resource "aws_elasticache_replication_group" {
  defaults = { primary_endpoint_address = "master.glovebox.abcdef.euc1.cache.amazonaws.com" }
}
