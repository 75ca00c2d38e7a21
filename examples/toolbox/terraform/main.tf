# Jobs of a file, applied by Terraform without a provider. The token comes from RAFTSCHED_TOKEN of who runs it, so that it
# is in no state.

terraform {
  required_version = ">= 1.4" # the first with terraform_data
}

variable "server" {
  description = "Nodes of the cluster, with commas between."
  type        = string
}

variable "file" {
  description = "The jobs. Each carries the label."
  type        = string
  default     = "jobs.yaml"
}

variable "namespace" {
  description = "The namespace of the jobs, in which the token is an editor's."
  type        = string
  default     = "shop"
}

variable "label" {
  description = "The label of the jobs that are this configuration's."
  type        = string
  default     = "repository=shop"
}

# Is there while the configuration is: its end deletes the jobs, and nothing else does.
resource "terraform_data" "jobs" {
  input = {
    server    = var.server
    namespace = var.namespace
    label     = var.label
  }

  provisioner "local-exec" {
    when    = destroy
    command = "raftsched jobs delete -N \"$NAMESPACE\" --label \"$LABEL\""
    environment = {
      RAFTSCHED_SERVER = self.output.server
      NAMESPACE        = self.output.namespace
      LABEL            = self.output.label
    }
  }
}

# Is made again when the file changes, which applies it.
resource "terraform_data" "applied" {
  triggers_replace = [filesha256(var.file), var.server, var.label]
  depends_on       = [terraform_data.jobs]

  provisioner "local-exec" {
    command = "raftsched jobs apply -f \"$FILE\" --check --prune --label \"$LABEL\" --yes"
    environment = {
      RAFTSCHED_SERVER = var.server
      FILE             = var.file
      LABEL            = var.label
    }
  }
}
