output "url" {
  description = "URL of the API, as clients have it."
  value       = var.api.public_url
}

output "load_balancer" {
  description = "DNS name and hosted zone of the load balancer: point the host of api.public_url at it."
  value = {
    dns_name = aws_lb.api.dns_name
    zone_id  = aws_lb.api.zone_id
  }
}

output "bucket" {
  description = "Name of the bucket."
  value       = aws_s3_bucket.this.bucket
}

output "redis" {
  description = "Address and port of the primary, and the users that it knows. TLS only."
  value = {
    address = local.redis_address
    port    = local.redis_port
    users   = { for key, user in local.redis_users : key => user.name }
  }
}

output "groups" {
  description = "The Auto Scaling group of the API and of each pool of workers."
  value       = { for name in keys(local.groups) : name => aws_autoscaling_group.this[name].name }
}

output "roles" {
  description = "ARN of the role that the hosts of each group have."
  value       = { for name in keys(local.groups) : name => aws_iam_role.host[name].arn }
}

output "security_groups" {
  description = "Ids of the security groups: of the load balancer, the API's hosts, the workers' and Redis."
  value = {
    load_balancer = aws_security_group.lb.id
    api           = aws_security_group.hosts["api"].id
    workers       = aws_security_group.hosts["worker"].id
    redis         = aws_security_group.redis.id
  }
}

output "vpc_id" {
  description = "Id of the VPC."
  value       = local.vpc_id
}

output "nat_addresses" {
  description = "Addresses from which webhooks come, for receivers that ask. Empty without NAT of this module."
  value       = values(aws_eip.nat)[*].public_ip
}

output "secrets" {
  description = "ARN of the secret of each group, which holds its settings."
  value       = { for name in keys(local.groups) : name => aws_secretsmanager_secret.settings[name].arn }
}
