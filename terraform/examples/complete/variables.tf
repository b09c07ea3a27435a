variable "region" {
  description = "Where it runs."
  type        = string
  default     = "eu-central-1"
}

variable "name" {
  description = "What the installation is called, and the first part of the API's host name."
  type        = string
  default     = "glovebox"
}

variable "zone" {
  description = "Zone of Route 53 that the API's host name is in, such as example.com."
  type        = string
}

variable "release" {
  description = "Where the archive of a pack is, and its SHA-256: see the module's README."
  type        = object({ url = string, sha256 = string })
}

variable "secrets" {
  description = "The module's secrets, for the pools steady and spot. Give them by TF_VAR_secrets, never by a file beside this one."
  type = object({
    redis_passwords = map(string)
    api             = object({ admin_token = string, token = optional(string), webhook_key = string, capability_key = string })
    workers         = optional(object({ signing_key = optional(string), secrets_key = optional(string) }), {})
  })
  ephemeral = true
  sensitive = true
}

variable "secrets_version" {
  description = "Raise it when secrets have changed."
  type        = number
  default     = 1
}
