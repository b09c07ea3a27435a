variable "region" {
  description = "Where it runs: a region that has its default VPC."
  type        = string
  default     = "eu-central-1"
}

variable "name" {
  description = "What the installation is called: 3 to 20 of a-z, 0-9 and -."
  type        = string
  default     = "glovebox"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,18}[a-z0-9]$", var.name))
    error_message = "name has to be 3 to 20 of a-z, 0-9 and -, begin with a letter and end with a letter or digit."
  }
}

variable "host" {
  description = "Name under which clients reach it. Point it at the output address at once: the certificate needs it."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9.-]+$", var.host))
    error_message = "host has to be a name, such as glovebox.example.com."
  }
}

variable "release" {
  description = "https URL of the archive of a pack for amd64, and its SHA-256: see the module's README."
  type        = object({ url = string, sha256 = string })

  validation {
    condition     = can(regex("^https://[A-Za-z0-9./_~%?&=:+-]+$", var.release.url)) && can(regex("^[0-9a-f]{64}$", var.release.sha256))
    error_message = "release.url has to be https://…, and release.sha256 64 of 0-9 and a-f."
  }
}

variable "instance_type" {
  description = "A type for amd64."
  type        = string
  default     = "c7a.xlarge"
}

variable "disk_gib" {
  description = "Size of its disk, on which images and Redis are."
  type        = number
  default     = 60

  validation {
    condition     = var.disk_gib >= 24
    error_message = "disk_gib has to be at least 24."
  }
}
