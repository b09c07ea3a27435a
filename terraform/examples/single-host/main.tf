# One EC2 instance with all of Glovebox on it (infra/aws/single-host.sh), and a bucket. To try
# it out: a worker belongs on another host than the API, and this disk is Redis' only one.

provider "aws" {
  region = var.region
}

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}

data "aws_ssm_parameter" "debian" {
  name = "/aws/service/debian/release/13/latest/amd64"
}

data "aws_vpc" "default" {
  default = true
}

locals {
  bucket     = "${var.name}-${data.aws_caller_identity.current.account_id}-${var.region}"
  bucket_arn = "arn:${data.aws_partition.current.partition}:s3:::${local.bucket}"
  tags       = { Glovebox = var.name, Name = var.name }
}

resource "aws_instance" "this" {
  ami                         = data.aws_ssm_parameter.debian.insecure_value
  instance_type               = var.instance_type
  associate_public_ip_address = true
  vpc_security_group_ids      = [aws_security_group.this.id]
  iam_instance_profile        = aws_iam_instance_profile.this.name
  user_data_replace_on_change = false
  tags                        = local.tags

  # No secret is in it: they are made on the instance. A newer release is for a newer instance,
  # or for infra/aws/single-host.sh by hand.
  user_data = join("\n", ["#cloud-config", yamlencode({
    packages = ["ca-certificates", "curl"]
    runcmd = [
      ["curl", "--fail", "--silent", "--show-error", "--location", "--proto", "=https", "--retry", "5", "--output", "/var/tmp/pack", var.release.url],
      ["sh", "-c", join(" && ", [
        "echo '${var.release.sha256}  /var/tmp/pack' | sha256sum --check",
        "mkdir -p /opt/glovebox",
        "tar --extract --no-same-owner --file /var/tmp/pack --directory /opt/glovebox",
        "$(find /opt/glovebox -path '*/infra/aws/single-host.sh') '${var.host}' '${local.bucket}' '${var.region}'",
      ])],
    ]
  })])

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  root_block_device {
    encrypted   = true
    volume_type = "gp3"
    volume_size = var.disk_gib
  }

  # Another image or script would take Redis' disk along.
  lifecycle { ignore_changes = [ami, user_data] }
}

resource "aws_eip" "this" {
  domain   = "vpc"
  instance = aws_instance.this.id
  tags     = local.tags
}

#### Who reaches it: clients, and who checks that the name is its own for the certificate.

resource "aws_security_group" "this" {
  name_prefix = "${var.name}-"
  description = "Glovebox on one host"
  vpc_id      = data.aws_vpc.default.id
  tags        = local.tags

  lifecycle { create_before_destroy = true }
}

resource "aws_vpc_security_group_ingress_rule" "web" {
  for_each = toset(["80", "443"])

  security_group_id = aws_security_group.this.id
  description       = "Clients, and the certificate's issuer"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = each.key
  to_port           = each.key
}

resource "aws_vpc_security_group_egress_rule" "web" {
  for_each = toset(["80", "443"])

  security_group_id = aws_security_group.this.id
  description       = "Packages, the bucket, receivers of webhooks"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = each.key
  to_port           = each.key
}

#### What it may do: read and write its bucket.

resource "aws_iam_role" "this" {
  name = "${var.name}-single-host"
  tags = local.tags

  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Principal = { Service = "ec2.amazonaws.com" }, Action = "sts:AssumeRole" }]
  })
}

resource "aws_iam_role_policy" "this" {
  name = "glovebox"
  role = aws_iam_role.this.name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect   = "Allow"
        Action   = ["s3:ListBucket", "s3:ListBucketMultipartUploads", "s3:ListBucketVersions", "s3:GetBucketVersioning"]
        Resource = [local.bucket_arn]
      },
      {
        Effect   = "Allow"
        Action   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:AbortMultipartUpload"]
        Resource = ["${local.bucket_arn}/tenants/*", "${local.bucket_arn}/glovebox-private"]
      },
    ]
  })
}

resource "aws_iam_instance_profile" "this" {
  name = aws_iam_role.this.name
  role = aws_iam_role.this.name
  tags = local.tags
}

#### The bucket, encrypted by S3's own keys.

resource "aws_s3_bucket" "this" {
  bucket = local.bucket
  tags   = local.tags
}

resource "aws_s3_bucket_public_access_block" "this" {
  bucket = aws_s3_bucket.this.bucket

  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_lifecycle_configuration" "this" {
  bucket = aws_s3_bucket.this.bucket

  rule {
    id     = "abort-unfinished-uploads"
    status = "Enabled"

    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
}

resource "aws_s3_bucket_policy" "this" {
  bucket = aws_s3_bucket.this.bucket

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Deny"
      Principal = "*"
      Action    = "s3:*"
      Resource  = [local.bucket_arn, "${local.bucket_arn}/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })

  depends_on = [aws_s3_bucket_public_access_block.this]
}
