# All of the module: an API and two pools of workers in a VPC of their own, a certificate, a
# name in Route 53, and a topic that alarms go to.

provider "aws" {
  region = var.region
}

locals {
  host = "${var.name}.${var.zone}"
}

data "aws_route53_zone" "this" {
  name = var.zone
}

module "glovebox" {
  source = "../.."

  name = var.name
  tags = { Environment = "example" }

  # Debian's own image lacks the packages that hosts need, so they fetch them as they boot.
  network = { nat = "zones" }
  release = var.release

  api = {
    public_url      = "https://${local.host}"
    certificate_arn = aws_acm_certificate_validation.this.certificate_arn
    settings        = { GLOVEBOX_TENANT_QUOTAS = "requests_per_minute=600,jobs_queued=1000,bytes_queued=268435456,bytes_stored=10737418240" }
  }

  workers = {
    # Always there: what Spot has no capacity for runs here.
    steady = {
      min_size = 1
      max_size = 2
    }
    spot = {
      instance_types = ["c7a.xlarge", "c6a.xlarge", "m7a.xlarge", "m6a.xlarge"]
      spot           = true
      grace_seconds  = 90
      min_size       = 1
      max_size       = 8
      labels         = { capacity = "spot" }
    }
  }

  # Spot hosts come and go with the jobs. Each has four CPUs.
  autoscale = { spot = { slots = 4 } }

  # A web page may upload straight to the bucket.
  bucket = { cors_origins = ["https://app.${var.zone}"] }

  alarm_actions   = [aws_sns_topic.alarms.arn]
  secrets         = var.secrets
  secrets_version = var.secrets_version
}

resource "aws_sns_topic" "alarms" {
  name              = "${var.name}-alarms"
  kms_master_key_id = "alias/aws/sns"
}

resource "aws_route53_record" "api" {
  zone_id = data.aws_route53_zone.this.zone_id
  name    = local.host
  type    = "A"

  alias {
    name                   = module.glovebox.load_balancer.dns_name
    zone_id                = module.glovebox.load_balancer.zone_id
    evaluate_target_health = true
  }
}

#### Certificate

resource "aws_acm_certificate" "this" {
  domain_name       = local.host
  validation_method = "DNS"

  lifecycle { create_before_destroy = true }
}

resource "aws_route53_record" "validation" {
  zone_id = data.aws_route53_zone.this.zone_id
  name    = one(aws_acm_certificate.this.domain_validation_options).resource_record_name
  type    = one(aws_acm_certificate.this.domain_validation_options).resource_record_type
  records = [one(aws_acm_certificate.this.domain_validation_options).resource_record_value]
  ttl     = 60
}

resource "aws_acm_certificate_validation" "this" {
  certificate_arn         = aws_acm_certificate.this.arn
  validation_record_fqdns = [aws_route53_record.validation.fqdn]
}
