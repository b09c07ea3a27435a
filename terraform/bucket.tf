# The bucket. Glovebox deletes what nobody keeps, so it has no versions and no rule that expires
# objects (docs/operations.md, Keeping).

locals {
  bucket     = coalesce(var.bucket.name, "${var.name}-${local.account}-${local.region}")
  bucket_arn = "arn:${local.partition}:s3:::${local.bucket}"

  # docs/operations.md, Roles. A worker deletes what a try of its own left, so it needs no versions.
  bucket_actions = {
    api    = ["s3:ListBucket", "s3:ListBucketMultipartUploads", "s3:ListBucketVersions", "s3:GetBucketVersioning"]
    worker = ["s3:ListBucket", "s3:ListBucketMultipartUploads"]
  }
  object_actions = {
    api    = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:AbortMultipartUpload"]
    worker = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
  }
  objects = ["${local.bucket_arn}/tenants/*", "${local.bucket_arn}/glovebox-private"]
  # Runtimes' images, for "glovebox runtimes pull". No host of this module writes there: whoever does
  # decides what jobs run in.
  images = ["${local.bucket_arn}/images/*"]
}

# Not the platform's key: who may read jobs' files may not thereby read secrets.
resource "aws_kms_key" "bucket" {
  description             = "Glovebox ${var.name}: objects of the bucket"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  tags                    = local.tags
}

resource "aws_kms_alias" "bucket" {
  name          = "alias/${var.name}-bucket"
  target_key_id = aws_kms_key.bucket.key_id
}

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

resource "aws_s3_bucket_ownership_controls" "this" {
  bucket = aws_s3_bucket.this.bucket

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  bucket = aws_s3_bucket.this.bucket

  rule {
    # One call of KMS for many objects.
    bucket_key_enabled       = true
    blocked_encryption_types = ["SSE-C"]

    apply_server_side_encryption_by_default {
      sse_algorithm     = "aws:kms"
      kms_master_key_id = aws_kms_key.bucket.arn
    }
  }
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

resource "aws_s3_bucket_cors_configuration" "this" {
  count = length(var.bucket.cors_origins) == 0 ? 0 : 1

  bucket = aws_s3_bucket.this.bucket

  cors_rule {
    allowed_origins = var.bucket.cors_origins
    allowed_methods = ["GET", "PUT"]
    allowed_headers = ["content-type", "content-length", "x-amz-checksum-sha256", "x-amz-sdk-checksum-algorithm"]
    expose_headers  = ["ETag", "Content-Length", "Content-Disposition"]
    max_age_seconds = 3600
  }
}

# No rule that only the VPC's endpoint passes: browsers and receivers follow links into the bucket.
resource "aws_s3_bucket_policy" "this" {
  bucket = aws_s3_bucket.this.bucket

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "TLSOnly"
        Effect    = "Deny"
        Principal = "*"
        Action    = "s3:*"
        Resource  = [local.bucket_arn, "${local.bucket_arn}/*"]
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
      {
        Sid       = "TLS12"
        Effect    = "Deny"
        Principal = "*"
        Action    = "s3:*"
        Resource  = [local.bucket_arn, "${local.bucket_arn}/*"]
        Condition = { NumericLessThan = { "s3:TlsVersion" = "1.2" } }
      },
    ]
  })

  depends_on = [aws_s3_bucket_public_access_block.this]
}
