output "url" {
  description = "URL of the API."
  value       = module.glovebox.url
}

output "groups" {
  description = "Auto Scaling groups."
  value       = module.glovebox.groups
}

output "nat_addresses" {
  description = "Addresses from which webhooks come."
  value       = module.glovebox.nat_addresses
}
