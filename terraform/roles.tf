# What a host may do in AWS: read and write its part of the bucket, read its own group's
# secret, complete its own group's hooks; the API's, write how many workers there should be.
# Nothing else.

locals {
  # The release, where it is an object.
  release_arn = startswith(var.release.url, "s3://") ? "arn:${local.partition}:s3:::${trimprefix(var.release.url, "s3://")}" : null

  host_policies = {
    for name, group in local.groups : name => {
      Version = "2012-10-17"
      Statement = concat(
        [
          {
            Sid      = "Bucket"
            Effect   = "Allow"
            Action   = local.bucket_actions[group.role]
            Resource = [local.bucket_arn]
          },
          {
            Sid      = "Objects"
            Effect   = "Allow"
            Action   = local.object_actions[group.role]
            Resource = local.objects
          },
          {
            Sid      = "ObjectsKey"
            Effect   = "Allow"
            Action   = ["kms:Decrypt", "kms:GenerateDataKey"]
            Resource = [aws_kms_key.bucket.arn]
          },
          {
            Sid      = "OwnSecret"
            Effect   = "Allow"
            Action   = ["secretsmanager:GetSecretValue"]
            Resource = [aws_secretsmanager_secret.settings[name].arn]
          },
          {
            Sid       = "SecretsKey"
            Effect    = "Allow"
            Action    = ["kms:Decrypt"]
            Resource  = [aws_kms_key.platform.arn]
            Condition = { StringEquals = { "kms:EncryptionContext:SecretARN" = aws_secretsmanager_secret.settings[name].arn } }
          },
          {
            Sid      = "OwnGroup"
            Effect   = "Allow"
            Action   = ["autoscaling:CompleteLifecycleAction"]
            Resource = [local.group_arns[name]]
          },
        ],
        group.role != "worker" ? [] : [{
          Sid      = "Images"
          Effect   = "Allow"
          Action   = ["s3:GetObject"]
          Resource = local.images
        }],
        local.release_arn == null ? [] : [{
          Sid      = "Release"
          Effect   = "Allow"
          Action   = ["s3:GetObject"]
          Resource = [local.release_arn]
        }],
        # Metrics have no ARN. Their namespace bounds it.
        length(var.autoscale) == 0 || group.role != "api" ? [] : [{
          Sid       = "WantedWorkers"
          Effect    = "Allow"
          Action    = ["cloudwatch:PutMetricData"]
          Resource  = ["*"]
          Condition = { StringEquals = { "cloudwatch:namespace" = local.wanted_metric.namespace } }
        }],
      )
    }
  }
}

resource "aws_iam_role" "host" {
  for_each = local.groups

  name        = "${var.name}-${each.key}-${local.region}"
  description = "Glovebox ${var.name}: hosts of ${each.key}"
  tags        = local.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "EC2"
      Effect    = "Allow"
      Principal = { Service = "ec2.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "host" {
  for_each = local.groups

  name   = "glovebox"
  role   = aws_iam_role.host[each.key].name
  policy = jsonencode(local.host_policies[each.key])
}

resource "aws_iam_instance_profile" "this" {
  for_each = local.groups

  name = aws_iam_role.host[each.key].name
  role = aws_iam_role.host[each.key].name
  tags = local.tags
}
