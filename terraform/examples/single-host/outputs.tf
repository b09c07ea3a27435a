output "url" {
  description = "URL of the API, some minutes after the first boot."
  value       = "https://${var.host}"
}

output "address" {
  description = "Address that host has to lead to."
  value       = aws_eip.this.public_ip
}
