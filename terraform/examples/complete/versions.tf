terraform {
  # Write-only arguments keep secrets out of the state: they came with 1.11.
  required_version = ">= 1.11"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.41"
    }
  }
}
