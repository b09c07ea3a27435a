# Each of these is refused as a plan is made, by the variable that it is.
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
  }
  secrets = {
    redis_passwords = {
      api      = "password-of-the-api-0001"
      metrics  = "password-of-metrics-0001"
      operator = "password-of-operator-001"
      default  = "password-of-a-pool-00001"
    }
    api = {
      admin_token    = "0000000000000000000000000000000000000000000000000000000000000000"
      webhook_key    = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
      capability_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
    }
    workers = { signing_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" }
  }
}

run "name_too_short" {
  command = plan
  variables {
    name = "gb"
  }
  expect_failures = [var.name]
}

run "name_with_capitals" {
  command = plan
  variables {
    name = "Glovebox"
  }
  expect_failures = [var.name]
}

run "name_with_two_dashes" {
  command = plan
  variables {
    name = "glove--box"
  }
  expect_failures = [var.name]
}

run "nat_of_another_kind" {
  command = plan
  variables {
    network = { nat = "yes" }
  }
  expect_failures = [var.network]
}

run "four_zones" {
  command = plan
  variables {
    network = { nat = "one", zones = 4 }
  }
  expect_failures = [var.network]
}

run "network_too_small" {
  command = plan
  variables {
    network = { nat = "one", cidr = "10.0.0.0/24" }
  }
  expect_failures = [var.network]
}

run "network_that_is_none" {
  command = plan
  variables {
    network = { nat = "one", cidr = "10.0.0.300/16" }
  }
  expect_failures = [var.network]
}

run "vpc_without_subnets" {
  command = plan
  variables {
    network = { vpc_id = "vpc-1" }
  }
  expect_failures = [var.network]
}

run "subnets_without_vpc" {
  command = plan
  variables {
    network = { nat = "one", api_subnet_ids = ["subnet-1", "subnet-2"] }
  }
  expect_failures = [var.network]
}

run "nat_in_a_given_vpc" {
  command = plan
  variables {
    network = { vpc_id = "vpc-1", nat = "one", public_subnet_ids = ["a", "b"], api_subnet_ids = ["a", "b"], worker_subnet_ids = ["a", "b"] }
  }
  expect_failures = [var.network]
}

run "no_way_to_packages" {
  command = plan
  variables {
    network = {}
  }
  expect_failures = [var.network]
}

run "ami_by_id" {
  command = plan
  variables {
    ami = { ssm_parameter = "ami-0123456789abcdef0" }
  }
  expect_failures = [var.ami]
}

run "architecture" {
  command = plan
  variables {
    architecture = "x86_64"
  }
  expect_failures = [var.architecture]
}

run "release_over_http" {
  command = plan
  variables {
    release = { url = "http://example.com/pack.tar.gz", sha256 = "0000000000000000000000000000000000000000000000000000000000000000" }
  }
  expect_failures = [var.release]
}

run "release_with_a_quote" {
  command = plan
  variables {
    release = { url = "https://example.com/'pack.tar.gz", sha256 = "0000000000000000000000000000000000000000000000000000000000000000" }
  }
  expect_failures = [var.release]
}

run "release_without_a_sum" {
  command = plan
  variables {
    release = { url = "https://example.com/pack.tar.gz", sha256 = "" }
  }
  expect_failures = [var.release]
}

run "release_of_s3_over_https" {
  command = plan
  variables {
    release = { url = "https://releases.s3.eu-central-1.amazonaws.com/pack.tar.gz", sha256 = "0000000000000000000000000000000000000000000000000000000000000000" }
  }
  expect_failures = [var.release]
}

run "release_of_s3_by_path" {
  command = plan
  variables {
    release = { url = "https://s3.amazonaws.com/releases/pack.tar.gz", sha256 = "0000000000000000000000000000000000000000000000000000000000000000" }
  }
  expect_failures = [var.release]
}

run "release_of_s3_presigned" {
  command = plan
  variables {
    release = { url = "https://releases.s3-eu-west-1.amazonaws.com/pack.tar.gz?X-Amz-Expires=3600", sha256 = "0000000000000000000000000000000000000000000000000000000000000000" }
  }
  expect_failures = [var.release]
}

run "redis_node_type" {
  command = plan
  variables {
    redis = { node_type = "m7g.large" }
  }
  expect_failures = [var.redis]
}

run "redis_version" {
  command = plan
  variables {
    redis = { engine_version = "9.0" }
  }
  expect_failures = [var.redis]
}

run "two_redis_nodes" {
  command = plan
  variables {
    redis = { nodes = 2 }
  }
  expect_failures = [var.redis]
}

run "no_snapshots" {
  command = plan
  variables {
    redis = { snapshot_days = 0 }
  }
  expect_failures = [var.redis]
}

run "maintenance_window" {
  command = plan
  variables {
    redis = { maintenance_window = "sunday" }
  }
  expect_failures = [var.redis]
}

run "bucket_with_a_dot" {
  command = plan
  variables {
    bucket = { name = "jobs.example.com" }
  }
  expect_failures = [var.bucket]
}

run "cors_for_everybody" {
  command = plan
  variables {
    bucket = { cors_origins = ["*"] }
  }
  expect_failures = [var.bucket]
}

run "cors_over_http" {
  command = plan
  variables {
    bucket = { cors_origins = ["http://app.example.com"] }
  }
  expect_failures = [var.bucket]
}

run "retention" {
  command = plan
  variables {
    retention_seconds = 1.5
  }
  expect_failures = [var.retention_seconds]
}

run "url_over_http" {
  command = plan
  variables {
    api = { public_url = "http://glovebox.example.com", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000" }
  }
  expect_failures = [var.api]
}

run "url_with_a_path" {
  command = plan
  variables {
    api = { public_url = "https://glovebox.example.com/api", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000" }
  }
  expect_failures = [var.api]
}

run "certificate" {
  command = plan
  variables {
    api = { public_url = "https://glovebox.example.com", certificate_arn = "glovebox.example.com" }
  }
  expect_failures = [var.api]
}

run "no_api_types" {
  command = plan
  variables {
    api = { public_url = "https://glovebox.example.com", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000", instance_types = [] }
  }
  expect_failures = [var.api]
}

run "no_api" {
  command = plan
  variables {
    api = { public_url = "https://glovebox.example.com", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000", min_size = 0 }
  }
  expect_failures = [var.api]
}

run "api_max_below_min" {
  command = plan
  variables {
    api = { public_url = "https://glovebox.example.com", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000", min_size = 3, max_size = 2 }
  }
  expect_failures = [var.api]
}

run "api_disk" {
  command = plan
  variables {
    api = { public_url = "https://glovebox.example.com", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000", disk_gib = 4 }
  }
  expect_failures = [var.api]
}

run "no_clients" {
  command = plan
  variables {
    api = { public_url = "https://glovebox.example.com", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000", client_cidrs = [] }
  }
  expect_failures = [var.api]
}

run "clients_by_name" {
  command = plan
  variables {
    api = { public_url = "https://glovebox.example.com", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000", client_cidrs = ["example.com"] }
  }
  expect_failures = [var.api]
}

run "webhook_port" {
  command = plan
  variables {
    api = { public_url = "https://glovebox.example.com", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000", webhook_ports = [0] }
  }
  expect_failures = [var.api]
}

run "requests_per_ip" {
  command = plan
  variables {
    api = { public_url = "https://glovebox.example.com", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000", requests_per_ip = 1 }
  }
  expect_failures = [var.api]
}

run "requests_per_token" {
  command = plan
  variables {
    api = { public_url = "https://glovebox.example.com", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000", requests_per_token = 1 }
  }
  expect_failures = [var.api]
}

run "api_secret_as_setting" {
  command = plan
  variables {
    api = { public_url = "https://glovebox.example.com", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000", settings = { GLOVEBOX_TOKEN = "x" } }
  }
  expect_failures = [var.api]
}

run "api_setting_of_the_module" {
  command = plan
  variables {
    api = { public_url = "https://glovebox.example.com", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000", settings = { GLOVEBOX_API_ADDR = "x" } }
  }
  expect_failures = [var.api]
}

run "api_setting_with_a_quote" {
  command = plan
  variables {
    api = { public_url = "https://glovebox.example.com", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000", settings = { GLOVEBOX_TENANT_QUOTAS = "'" } }
  }
  expect_failures = [var.api]
}

run "pool_named_api" {
  command = plan
  variables {
    workers = { api = {} }
  }
  expect_failures = [var.workers]
}

run "pool_named_metrics" {
  command = plan
  variables {
    workers = { metrics = {} }
  }
  expect_failures = [var.workers]
}

run "pool_with_a_long_name" {
  command = plan
  variables {
    workers = { abcdefghijklm = {} }
  }
  expect_failures = [var.workers]
}

run "no_worker_types" {
  command = plan
  variables {
    workers = { default = { instance_types = [] } }
  }
  expect_failures = [var.workers]
}

run "negative_size" {
  command = plan
  variables {
    workers = { default = { min_size = -1 } }
  }
  expect_failures = [var.workers]
}

run "max_below_min" {
  command = plan
  variables {
    workers = { default = { min_size = 2, max_size = 1 } }
  }
  expect_failures = [var.workers]
}

run "nobody_at_most" {
  command = plan
  variables {
    workers = { default = { min_size = 0, max_size = 0 } }
  }
  expect_failures = [var.workers]
}

run "scaling_from_none" {
  command = plan
  variables {
    workers               = { default = { min_size = 0 } }
    wanted_workers_metric = { namespace = "Glovebox", name = "Wanted" }
  }
  expect_failures = [var.workers]
}

run "grace_of_spot" {
  command = plan
  variables {
    workers = { default = { spot = true, grace_seconds = 91 } }
  }
  expect_failures = [var.workers]
}

run "grace" {
  command = plan
  variables {
    workers = { default = { grace_seconds = 0 } }
  }
  expect_failures = [var.workers]
}

run "worker_disk" {
  command = plan
  variables {
    workers = { default = { disk_gib = 8 } }
  }
  expect_failures = [var.workers]
}

run "label" {
  command = plan
  variables {
    workers = { default = { labels = { "a b" = "c" } } }
  }
  expect_failures = [var.workers]
}

run "label_of_a_digit" {
  command = plan
  variables {
    workers = { default = { labels = { "1a" = "c" } } }
  }
  expect_failures = [var.workers]
}

run "value_of_a_label" {
  command = plan
  variables {
    workers = { default = { labels = { zone = "a,b" } } }
  }
  expect_failures = [var.workers]
}

run "labels_too_many" {
  command = plan
  variables {
    workers = { default = { labels = { for n in range(17) : "k${n}" => "v" } } }
  }
  expect_failures = [var.workers]
}

run "only_what_the_pool_has_not" {
  command = plan
  variables {
    workers = { default = { labels = { zone = "a" }, only = ["pool"] } }
  }
  expect_failures = [var.workers]
}

run "worker_secret_as_setting" {
  command = plan
  variables {
    workers = { default = { settings = { GLOVEBOX_SIGNING_KEY = "x" } } }
  }
  expect_failures = [var.workers]
}

run "worker_setting_with_a_line" {
  command = plan
  variables {
    workers = { default = { settings = { GLOVEBOX_IMAGES = "a\nb" } } }
  }
  expect_failures = [var.workers]
}

run "autoscale_from_none" {
  command = plan
  variables {
    workers   = { default = { min_size = 0 } }
    autoscale = { default = { slots = 4 } }
  }
  expect_failures = [var.autoscale]
}

run "autoscale_of_no_pool" {
  command = plan
  variables {
    autoscale = { other = { slots = 4 } }
  }
  expect_failures = [var.autoscale]
}

run "autoscale_without_slots" {
  command = plan
  variables {
    autoscale = { default = { slots = 0 } }
  }
  expect_failures = [var.autoscale]
}

run "autoscale_with_half_a_session" {
  command = plan
  variables {
    autoscale = { default = { slots = 4, sessions = 0.5 } }
  }
  expect_failures = [var.autoscale]
}

run "autoscale_that_boots_for_too_long" {
  command = plan
  variables {
    autoscale = { default = { slots = 4, boot_seconds = 600 } }
  }
  expect_failures = [var.autoscale]
}

run "autoscale_whose_boot_glovebox_refuses" {
  command = plan
  variables {
    autoscale = { default = { slots = 4, boot_seconds = 3601, clear_seconds = 7200 } }
  }
  expect_failures = [var.autoscale]
}

run "autoscale_and_a_metric" {
  command = plan
  variables {
    autoscale             = { default = { slots = 4 } }
    wanted_workers_metric = { namespace = "Glovebox", name = "Wanted" }
  }
  expect_failures = [var.autoscale]
}

run "metric_of_aws" {
  command = plan
  variables {
    wanted_workers_metric = { namespace = "AWS/EC2", name = "Wanted" }
  }
  expect_failures = [var.wanted_workers_metric]
}

run "metric_without_a_name" {
  command = plan
  variables {
    wanted_workers_metric = { namespace = "Glovebox", name = "" }
  }
  expect_failures = [var.wanted_workers_metric]
}

run "metrics_security_group" {
  command = plan
  variables {
    metrics_security_group_id = "prometheus"
  }
  expect_failures = [var.metrics_security_group_id]
}

run "alarm_action" {
  command = plan
  variables {
    alarm_actions = ["me@example.com"]
  }
  expect_failures = [var.alarm_actions]
}

run "secrets_version" {
  command = plan
  variables {
    secrets_version = 0
  }
  expect_failures = [var.secrets_version]
}

run "short_password" {
  command = plan
  variables {
    secrets = {
      redis_passwords = { api = "short", metrics = "password-of-metrics-0001", operator = "password-of-operator-001", default = "password-of-a-pool-00001" }
      api             = { admin_token = "0000000000000000000000000000000000000000000000000000000000000000", webhook_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", capability_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" }
      workers         = {}
    }
  }
  expect_failures = [var.secrets]
}

run "password_with_an_at" {
  command = plan
  variables {
    secrets = {
      redis_passwords = { api = "password@of-the-api-0001", metrics = "password-of-metrics-0001", operator = "password-of-operator-001", default = "password-of-a-pool-00001" }
      api             = { admin_token = "0000000000000000000000000000000000000000000000000000000000000000", webhook_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", capability_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" }
      workers         = {}
    }
  }
  expect_failures = [var.secrets]
}

run "pool_without_a_password" {
  command = plan
  variables {
    secrets = {
      redis_passwords = { api = "password-of-the-api-0001", metrics = "password-of-metrics-0001", operator = "password-of-operator-001" }
      api             = { admin_token = "0000000000000000000000000000000000000000000000000000000000000000", webhook_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", capability_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" }
      workers         = {}
    }
  }
  expect_failures = [var.secrets]
}

run "short_admin_token" {
  command = plan
  variables {
    secrets = {
      redis_passwords = { api = "password-of-the-api-0001", metrics = "password-of-metrics-0001", operator = "password-of-operator-001", default = "password-of-a-pool-00001" }
      api             = { admin_token = "admin", webhook_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", capability_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" }
      workers         = {}
    }
  }
  expect_failures = [var.secrets]
}

run "token_with_a_quote" {
  command = plan
  variables {
    secrets = {
      redis_passwords = { api = "password-of-the-api-0001", metrics = "password-of-metrics-0001", operator = "password-of-operator-001", default = "password-of-a-pool-00001" }
      api             = { admin_token = "0000000000000000000000000000000000000000000000000000000000000000", webhook_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", capability_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", token = "0000000000000000000000000000000000000000'" }
      workers         = {}
    }
  }
  expect_failures = [var.secrets]
}

run "webhook_key" {
  command = plan
  variables {
    secrets = {
      redis_passwords = { api = "password-of-the-api-0001", metrics = "password-of-metrics-0001", operator = "password-of-operator-001", default = "password-of-a-pool-00001" }
      api             = { admin_token = "0000000000000000000000000000000000000000000000000000000000000000", webhook_key = "key", capability_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" }
      workers         = {}
    }
  }
  expect_failures = [var.secrets]
}

run "signing_key" {
  command = plan
  variables {
    secrets = {
      redis_passwords = { api = "password-of-the-api-0001", metrics = "password-of-metrics-0001", operator = "password-of-operator-001", default = "password-of-a-pool-00001" }
      api             = { admin_token = "0000000000000000000000000000000000000000000000000000000000000000", webhook_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", capability_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" }
      workers         = { signing_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" }
    }
  }
  expect_failures = [var.secrets]
}

