# What each role may do, and what nobody may.
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

run "policies" {
  command = plan

  assert {
    condition = alltrue(flatten([
      for policy in values(aws_iam_role_policy.host) : [
        for statement in jsondecode(policy.policy).Statement : [for action in statement.Action : !strcontains(action, "*")]
      ]
    ]))
    error_message = "A role has a wildcard action."
  }
  # Nothing finer exists: objects by prefix, and the group's id in its ARN, which AWS makes up.
  assert {
    condition = toset(flatten([
      for policy in values(aws_iam_role_policy.host) : [
        for statement in jsondecode(policy.policy).Statement : [for resource in statement.Resource : resource if strcontains(resource, "*")]
      ]
      ])) == toset([
      "arn:aws:s3:::glovebox-123456789012-eu-central-1/tenants/*",
      "arn:aws:s3:::glovebox-123456789012-eu-central-1/images/*",
      "arn:aws:autoscaling:eu-central-1:123456789012:autoScalingGroup:*:autoScalingGroupName/glovebox-api",
      "arn:aws:autoscaling:eu-central-1:123456789012:autoScalingGroup:*:autoScalingGroupName/glovebox-default",
      "arn:aws:autoscaling:eu-central-1:123456789012:autoScalingGroup:*:autoScalingGroupName/glovebox-spot",
    ])
    error_message = "A role has a wildcard resource."
  }
  assert {
    condition = toset(flatten([for statement in jsondecode(aws_iam_role_policy.host["default"].policy).Statement : statement.Action])) == toset([
      "s3:ListBucket", "s3:ListBucketMultipartUploads", "s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload",
      "kms:Decrypt", "kms:GenerateDataKey", "secretsmanager:GetSecretValue", "autoscaling:CompleteLifecycleAction",
    ])
    error_message = "A worker may do something else than it has to."
  }
  assert {
    condition = [for statement in jsondecode(aws_iam_role_policy.host["default"].policy).Statement : statement.Resource if contains(statement.Action, "s3:PutObject")] == [[
      "arn:aws:s3:::glovebox-123456789012-eu-central-1/tenants/*", "arn:aws:s3:::glovebox-123456789012-eu-central-1/glovebox-private",
    ]]
    error_message = "A worker writes elsewhere than it has to."
  }
  assert {
    condition = flatten([
      for name, policy in aws_iam_role_policy.host : [
        for statement in jsondecode(policy.policy).Statement : statement.Action == ["s3:GetObject"] if anytrue([for resource in statement.Resource : strcontains(resource, "/images/")])
      ]
    ]) == [true, true] # the two groups of workers
    error_message = "A host may do something with images other than read them, or a worker may not."
  }
  assert {
    condition = [for statement in jsondecode(aws_iam_role_policy.host["default"].policy).Statement : statement.Resource if statement.Sid == "Release"] == [[
      "arn:aws:s3:::releases/glovebox/pack-amd64.tar.gz",
    ]]
    error_message = "A host may read another object than its release."
  }
  assert {
    condition     = alltrue([for role in values(aws_iam_role.host) : jsondecode(role.assume_role_policy).Statement == [{ Sid = "EC2", Effect = "Allow", Principal = { Service = "ec2.amazonaws.com" }, Action = "sts:AssumeRole" }]])
    error_message = "Somebody other than EC2 may become a host's role."
  }
}

# Principal "*" of an endpoint is who has passed the role's own policy and is in the VPC.
run "endpoints" {
  command = plan

  assert {
    condition = alltrue(flatten([
      for policy in concat([aws_vpc_endpoint.s3[0].policy], values(aws_vpc_endpoint.interface)[*].policy) : [
        for statement in jsondecode(policy).Statement : [for action in statement.Action : !strcontains(action, "*")]
      ]
    ]))
    error_message = "An endpoint lets any action through."
  }
  assert {
    condition = toset(flatten([
      for policy in concat([aws_vpc_endpoint.s3[0].policy], values(aws_vpc_endpoint.interface)[*].policy) : [
        for statement in jsondecode(policy).Statement : [for resource in statement.Resource : resource if strcontains(resource, "*")]
      ]
      ])) == toset([
      "arn:aws:s3:::glovebox-123456789012-eu-central-1/*",
      "arn:aws:autoscaling:eu-central-1:123456789012:autoScalingGroup:*:autoScalingGroupName/glovebox-api",
      "arn:aws:autoscaling:eu-central-1:123456789012:autoScalingGroup:*:autoScalingGroupName/glovebox-default",
      "arn:aws:autoscaling:eu-central-1:123456789012:autoScalingGroup:*:autoScalingGroupName/glovebox-spot",
    ])
    error_message = "An endpoint leads to any resource."
  }
}

# Metrics have no ARN: their namespace bounds who may write what.
run "autoscale" {
  command = plan
  variables {
    autoscale = { default = { slots = 4 } }
  }

  assert {
    condition = [for statement in jsondecode(aws_iam_role_policy.host["api"].policy).Statement : statement if contains(statement.Action, "cloudwatch:PutMetricData")] == [{
      Sid       = "WantedWorkers"
      Effect    = "Allow"
      Action    = ["cloudwatch:PutMetricData"]
      Resource  = ["*"]
      Condition = { StringEquals = { "cloudwatch:namespace" = "Glovebox/glovebox" } }
    }]
    error_message = "The API's hosts have to be able to write the one metric, and no other."
  }
  assert {
    condition     = alltrue(flatten([for pool in ["default", "spot"] : [for statement in jsondecode(aws_iam_role_policy.host[pool].policy).Statement : !contains(statement.Action, "cloudwatch:PutMetricData")]]))
    error_message = "A worker may say how many there should be."
  }
  assert {
    condition     = jsondecode(aws_vpc_endpoint.interface["monitoring"].policy).Statement[0].Action == ["cloudwatch:PutMetricData"]
    error_message = "The endpoint of CloudWatch lets more through than the metric."
  }
}

run "release_over_https" {
  command = plan
  variables {
    release = {
      url    = "https://releases.example.com/pack-amd64.tar.gz"
      sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
    }
  }

  assert {
    condition     = alltrue(flatten([for policy in values(aws_iam_role_policy.host) : [for statement in jsondecode(policy.policy).Statement : statement.Sid != "Release"]]))
    error_message = "A release on the web needs no right."
  }
}

run "bucket" {
  command = plan

  # s3:* is in what is denied only.
  assert {
    condition = alltrue([for statement in jsondecode(aws_s3_bucket_policy.this.policy).Statement : statement.Effect == "Deny" && statement.Principal == "*"]) && (
      [for statement in jsondecode(aws_s3_bucket_policy.this.policy).Statement : statement.Condition] == [
        { Bool = { "aws:SecureTransport" = "false" } }, { NumericLessThan = { "s3:TlsVersion" = "1.2" } },
      ]
    )
    error_message = "The bucket's policy has to deny what comes without TLS 1.2, and to allow nothing."
  }
  assert {
    condition = alltrue([
      aws_s3_bucket_public_access_block.this.block_public_acls, aws_s3_bucket_public_access_block.this.block_public_policy,
      aws_s3_bucket_public_access_block.this.ignore_public_acls, aws_s3_bucket_public_access_block.this.restrict_public_buckets,
    ])
    error_message = "The bucket could be made public."
  }
  assert {
    condition = alltrue([
      for rule in aws_s3_bucket_server_side_encryption_configuration.this.rule :
      rule.bucket_key_enabled && alltrue([for by in rule.apply_server_side_encryption_by_default : by.sse_algorithm == "aws:kms" && by.kms_master_key_id == aws_kms_key.bucket.arn])
    ])
    error_message = "Objects have to be encrypted with the bucket's own key."
  }
  # docs/operations.md: no rule but the one that aborts uploads.
  assert {
    condition     = length(aws_s3_bucket_lifecycle_configuration.this.rule) == 1 && length(aws_s3_bucket_lifecycle_configuration.this.rule[0].expiration) == 0 && aws_s3_bucket_lifecycle_configuration.this.rule[0].abort_incomplete_multipart_upload[0].days_after_initiation == 1
    error_message = "The bucket has to abort unfinished uploads, and expire nothing."
  }
  assert {
    condition     = aws_kms_key.bucket.enable_key_rotation && aws_kms_key.platform.enable_key_rotation
    error_message = "Keys have to be rotated."
  }
  assert {
    condition     = length(aws_s3_bucket_cors_configuration.this) == 0
    error_message = "Nobody asked for CORS."
  }
}

run "cors" {
  command = plan
  variables {
    bucket = { name = "jobs-of-example", cors_origins = ["https://app.example.com"] }
  }

  assert {
    condition     = alltrue([for rule in aws_s3_bucket_cors_configuration.this[0].cors_rule : rule.allowed_origins == toset(["https://app.example.com"]) && rule.allowed_methods == toset(["GET", "PUT"])])
    error_message = "Only the origin that was named may upload."
  }
  assert {
    condition     = aws_s3_bucket.this.bucket == "jobs-of-example"
    error_message = "The bucket has to have the name that was asked for."
  }
}
