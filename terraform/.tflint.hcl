# The aws ruleset has no version and source here: `make terraform-lint` builds it, so nothing is fetched.
config {
  call_module_type = "local"
}

plugin "terraform" {
  enabled = true
  preset  = "all"
}

plugin "aws" {
  enabled    = true
  deep_check = false
}

rule "aws_write_only_arguments" {
  enabled = true
}
rule "aws_security_group_inline_rules" {
  enabled = true
}
rule "aws_security_group_rule_deprecated" {
  enabled = true
}
rule "aws_iam_role_deprecated_policy_attributes" {
  enabled = true
}

# Files are named for what they are about: variables of the network are beside those of the rest.
rule "terraform_standard_module_structure" {
  enabled = true
}
